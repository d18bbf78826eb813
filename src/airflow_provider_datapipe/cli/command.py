"""What a command is: said once, for the program of its own and for Airflow's."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

DONE, REFUSED = 0, 1
#: Misspelt; argparse's own.
MISSPELT = 2
#: What was compared is not the same: of commands that only look.
DIFFERS = 3


@dataclass(frozen=True, slots=True)
class Option:
    """
    An option or argument of a command.

    :param flags: such as ``--output``.
    :param settings: what argparse takes, of that what Airflow takes, too: ``help``, ``action``, ``default``, ``nargs``,
        ``type``, ``choices``, ``required``, ``metavar``, ``dest``.
    """

    flags: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, *flags: str, **settings: Any) -> Option:
        """Make an option."""
        return cls(flags, settings)


@dataclass(frozen=True, slots=True)
class Command:
    """
    A command.

    :param name: its name.
    :param help: what it does, in a line.
    :param options: its options.
    :param run: does it, and gives the exit status. Heavy modules are imported there.
    :param epilog: what else there is to say.
    """

    name: str
    help: str
    options: tuple[Option, ...]
    run: Callable[[argparse.Namespace], int]
    epilog: str | None = None


def seconds(text: str) -> float:
    """
    Read a number of seconds.

    :raises argparse.ArgumentTypeError: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def some_seconds(text: str) -> float:
    """
    Read a number of seconds that is not 0.

    :raises argparse.ArgumentTypeError: it is none.
    """
    if not (value := seconds(text)):
        raise argparse.ArgumentTypeError("give more than 0 seconds")
    return value


def whole_seconds(text: str) -> int:
    """
    Read a whole number of seconds.

    :raises argparse.ArgumentTypeError: it is none.
    """
    if not (value := seconds(text)).is_integer():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of seconds")
    return int(value)


class CommandError(Exception):
    """A command can't be carried out as it was given."""

"""What a command is: said once, for the program of its own and for Airflow's."""

from __future__ import annotations

import argparse
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


class CommandError(Exception):
    """A command can't be carried out as it was given."""

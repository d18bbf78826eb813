"""Warnings of triggerers about a blocked event loop, and garbage collections, during which no event loop runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

#: Folder with the module that logs garbage collections, and the name of the log in ``AIRFLOW_HOME``.
LOGGER, COLLECTIONS = Path(__file__).with_name("collection_log"), "collections.log"
#: Logged by a triggerer whose event loop did not run for 0.2 s.
_WARNING = re.compile(r"^(?P<at>\S+Z) .*async thread was blocked for (?P<seconds>[\d.]+) seconds")
#: Seconds from the end of a pause to its log line.
_LOG_DELAY = 0.1
#: Part of a pause that a garbage collection must take to be its cause.
_SHARE = 0.5


class Pause(NamedTuple):
    """
    Period in which an event loop did not run.

    :param end: its end in seconds since the epoch.
    :param seconds: its duration.
    """

    end: float
    seconds: float


def warnings_of(logs: Sequence[Path]) -> Iterator[Pause]:
    """Yield the pauses that the logs of triggerers report."""
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            if found := _WARNING.search(line):
                yield Pause(datetime.fromisoformat(found["at"]).timestamp(), float(found["seconds"]))


def collections_of(home: Path) -> list[Pause]:
    """Return the full garbage collections of the triggerers of a deployment."""
    log = home / COLLECTIONS
    return [Pause(*map(float, line.split())) for line in log.read_text().splitlines()] if log.exists() else []


def unexplained(warnings: Sequence[Pause], collections: Sequence[Pause]) -> list[Pause]:
    """Return the warnings that no full garbage collection caused."""
    return [warning for warning in warnings if not any(_caused(warning, each) for each in collections)]


def _caused(warning: Pause, collection: Pause) -> bool:
    begin, end = warning.end - warning.seconds - _LOG_DELAY, warning.end
    common = min(end, collection.end) - max(begin, collection.end - collection.seconds)
    return common >= _SHARE * warning.seconds

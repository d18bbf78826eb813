"""Interface of a measured wait: a trigger, and its service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, ClassVar, Protocol

from tests.benchmarks.runs import Runs


class Trigger(Protocol):
    """Trigger that waits for a run."""

    def run(self) -> AsyncIterator[Any]:
        """Yield an event at the end of the run."""


class Adapter(ABC):
    """
    One way to wait for runs.

    Runs are numbers. The driver asks for :meth:`env`, the client for :meth:`trigger`, the stub for :meth:`answer`, each
    in its own process.
    """

    #: Its name in commands and tables.
    name: ClassVar[str]
    #: The distribution that has to be installed.
    distribution: ClassVar[str]
    #: Whether it is what this project ships.
    is_ours: ClassVar[bool] = False
    #: Whether it looks when the history of the runs says so, instead of at an interval.
    is_adaptive: ClassVar[bool] = False

    @abstractmethod
    def env(self, base: str) -> Mapping[str, str]:
        """Give what the client's environment needs, such as a connection."""

    def redirect(self, base: str) -> None:  # noqa: B027 - most need none
        """Lead what has its host written into its code to the stub, in the client."""

    def offsets(self, count: int, ramp: float) -> list[float]:
        """Give when each trigger starts, in seconds from the first one, ascending."""
        return [ramp * (run + 1) / count for run in range(count)]

    @abstractmethod
    def trigger(self, run: int, poll: float) -> Trigger:
        """Make a trigger, in the client."""

    def succeeded(self, payload: Any) -> bool:
        """Return True if an event reports the success of the run."""
        return bool(payload.get("status") == "success")

    def runs(self, count: int) -> Runs:
        """Make the runs, in the stub, in which this is called once."""
        return Runs(count)

    def begin(self, at: float) -> None:  # noqa: B027 - most need not know
        """Take word that the first trigger starts now, in the stub."""

    @abstractmethod
    def answer(self, path: str, runs: Runs) -> Mapping[str, Any] | None:
        """
        Answer a request, in the stub; None for what is not there.

        Asks :meth:`~tests.benchmarks.runs.Runs.is_over` once for each run that the answer shows.
        """


#: Makes an adapter, anew in each process.
Maker = Callable[[], Adapter]

"""Interface of a measured wait: a trigger, and its service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar, Protocol

from tests.benchmarks.runs import Runs


class Trigger(Protocol):
    """Trigger that waits for a run."""

    def run(self) -> AsyncIterator[Any]:
        """Yield an event at the end of the run."""


class Adapter(ABC):
    """
    Kind of wait for runs.

    Runs are numbers. The driver calls :meth:`env`, the client :meth:`trigger`, and the stub :meth:`answer`, each in its
    own process.
    """

    #: Name in commands and tables.
    name: ClassVar[str]
    #: Required distribution.
    distribution: ClassVar[str]
    #: True for triggers of this project.
    is_ours: ClassVar[bool] = False
    #: True if the poll interval depends on the run history.
    is_adaptive: ClassVar[bool] = False

    @abstractmethod
    def env(self, base: str) -> Mapping[str, str]:
        """Return environment variables of the client, such as a connection."""

    def redirect(self, base: str) -> None:  # noqa: B027 - optional
        """In the client, redirect requests with a hard-coded host to the stub."""

    def offsets(self, count: int, ramp: float) -> list[float]:
        """Return the start times of the triggers, in seconds after the first one, ascending."""
        return [ramp * (run + 1) / count for run in range(count)]

    @abstractmethod
    def trigger(self, run: int, poll: float) -> Trigger:
        """Create a trigger in the client."""

    def succeeded(self, payload: Any) -> bool:
        """Return True if an event reports the success of the run."""
        return bool(payload.get("status") == "success")

    def runs(self, count: int) -> Runs:
        """Create the runs in the stub, which calls this once."""
        return Runs(count)

    def begin(self, at: float) -> None:  # noqa: B027 - optional
        """In the stub, set the start time of the first trigger."""

    @abstractmethod
    def answer(self, path: str, runs: Runs) -> Mapping[str, Any] | None:
        """
        Return the response to a request in the stub, None for an unknown path.

        Calls :meth:`~tests.benchmarks.runs.Runs.is_over` once for each run in the response.
        """

"""Base class of the conditions that sensors wait for, and the result of a check."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.flows import Flow
from airflow_provider_datapipe.runs.models import RunRef
from airflow_provider_datapipe.runs.results import build_run_result, exception_for
from airflow_provider_datapipe.runs.targets import required
from airflow_provider_datapipe.runs.wait import WaitOutcome


@dataclass(frozen=True, slots=True)
class Check:
    """
    Result of one check of a condition.

    :param description: state of the condition, for messages.
    :param is_met: True if the wait is over.
    :param ends: outcomes of the runs that the condition is about.
    :param result: result of a condition that is not about runs.
    :param awaited: run after whose end the condition is checked again; None to check it at the poke interval.
    :param is_running: True if the awaited run has started.
    """

    description: str
    is_met: bool = False
    ends: tuple[WaitOutcome, ...] = ()
    result: dict[str, Any] | None = None
    awaited: RunRef | None = None
    is_running: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON, without the awaited run."""
        return {
            "description": self.description,
            "is_met": self.is_met,
            "ends": [end.as_dict() for end in self.ends],
            "result": self.result,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Check:
        """Return the check that :meth:`as_dict` serialized."""
        return cls(data["description"], data["is_met"], tuple(map(WaitOutcome.from_dict, data["ends"])), data["result"])


class ServicePage(NamedTuple):
    """
    The page of the service for a link.

    :param kind: kind of the resource.
    :param resource_id: ID of the resource; None if not known.
    :param run_id: ID of the run; None if not known, or if there is no run.
    """

    kind: str
    resource_id: str | None
    run_id: str | None = None


class Condition(ABC):
    """Condition that a sensor waits for."""

    #: Name in the arguments of the trigger.
    name: ClassVar[str]

    def __init__(self, **fields: Any) -> None:
        #: Arguments from which :func:`condition_of` recreates the condition.
        self.fields = {name: value for name, value in fields.items() if value is not None}

    @abstractmethod
    def check(self, now: float) -> Flow[Check]:
        """
        Check the condition once.

        :param now: current time in seconds since the epoch.
        """

    @abstractmethod
    def page(self, check: Check | None = None) -> ServicePage:
        """
        Return the page of the resource that the condition is about.

        :param check: the last check, None if there was none.
        """

    def page_id(self, field: str) -> str | None:
        """
        Return an ID for the page, None if the field is missing or invalid: the check raises the error.

        :param field: name of the field with the ID.
        """
        with suppress(ValueError):
            return required(field, self.fields.get(field))
        return None

    @property
    def has_run_id(self) -> bool:
        """True if the condition names one run by its ID, so that it cannot be met without this run."""
        return "run_id" in self.fields

    def is_met_by(self, end: WaitOutcome) -> bool:
        """Return True if the outcome of the awaited run satisfies the condition without another check."""
        return False

    def task_result(self, check: Check) -> tuple[Any, DatapipeError | None]:
        """Return the result of the task for a condition that is met, and the error that it raises, if any."""
        if not check.ends:
            return check.result, None
        (end,) = check.ends
        return build_run_result(end), exception_for(end)

"""What a condition is that a sensor waits for, and what a look at it shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.runs.reference import Reference
from airflow_provider_datapipe.runs.steps import Steps
from airflow_provider_datapipe.runs.targets import required
from airflow_provider_datapipe.runs.verdict import error_of, result_of
from airflow_provider_datapipe.runs.wait import End


@dataclass(frozen=True, slots=True)
class Check:
    """
    What one look at a condition showed.

    :param said: where it stands, for people.
    :param is_met: whether there is nothing more to wait for.
    :param ends: how the runs ended that it is about.
    :param result: what is known, where it is about no run.
    :param awaited: the run after whose end it is time to look again; None for a while later.
    """

    said: str
    is_met: bool = False
    ends: tuple[End, ...] = ()
    result: dict[str, Any] | None = None
    awaited: Reference | None = None

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON; what is awaited is left out."""
        return {
            "said": self.said,
            "is_met": self.is_met,
            "ends": [end.as_dict() for end in self.ends],
            "result": self.result,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Check:
        """Read what :meth:`as_dict` gave."""
        return cls(data["said"], data["is_met"], tuple(map(End.from_dict, data["ends"])), data["result"])


class Page(NamedTuple):
    """
    What a person would look at on the service.

    :param kind: what kind of thing it is.
    :param resource_id: its id; None where it is not known.
    :param run_id: its run; None where it is not known, or there is none.
    """

    kind: str
    resource_id: str | None
    run_id: str | None = None


class Condition(ABC):
    """Something that a sensor waits for."""

    #: Name in the arguments of the trigger.
    name: ClassVar[str]

    def __init__(self, **fields: Any) -> None:
        #: What it is made of; :func:`condition_of` makes it again.
        self.fields = {name: value for name, value in fields.items() if value is not None}

    @abstractmethod
    def check(self, now: float) -> Steps[Check]:
        """
        Look once.

        :param now: seconds since the epoch.
        """

    @abstractmethod
    def page(self, check: Check | None = None) -> Page:
        """
        Say what the condition is about.

        :param check: what the last look showed, if there was one.
        """

    def given(self, field: str) -> str | None:
        """
        Give an id for the page; None where there is none, which is said by the look that needs it.

        :param field: the field that has it.
        """
        with suppress(ValueError):
            return required(field, self.fields.get(field))
        return None

    @property
    def names_a_run(self) -> bool:
        """True if the condition names one run by its ID, so that it can't be met without this run."""
        return "run_id" in self.fields

    def settled_by(self, end: End) -> bool:
        """Tell whether the end of the run that was awaited is what was waited for, without another look."""
        return False

    def verdict(self, check: Check) -> tuple[Any, DatapipeError | None]:
        """Give the task's result, and the error that it ends with, if any, once the condition is met."""
        if not check.ends:
            return check.result, None
        (end,) = check.ends
        return result_of(end), error_of(end)

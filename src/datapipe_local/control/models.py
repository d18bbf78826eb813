"""Request bodies of the control plane."""

from __future__ import annotations

import datetime as dt
import re
from contextlib import suppress
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from datapipe_local.common.base_model import Strict
from datapipe_local.seed.models import Seconds
from datapipe_local.storage.clock import Timestamp, as_timestamp

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")
_OUR_HEADERS = frozenset({"content-length", "transfer-encoding", "connection"})
_LONGEST_DELAY = 600


def _as_moment(value: object) -> Timestamp:
    with suppress(ValueError, OverflowError):
        moment = dt.datetime.fromisoformat(value if isinstance(value, str) else "")
        # Python would read a time without a zone as local time.
        if moment.tzinfo:
            return as_timestamp(moment)
    raise ValueError("give a time with its zone, such as 2026-01-31T08:00:00Z")


Moment = Annotated[str, BeforeValidator(_as_moment)]
When = Literal["before", "after"]


class Fault(Strict):
    """Fault rule: the requests it applies to, and its effect."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "*"] = "*"
    path: str
    resource_id: str | None = None
    times: int | Literal["always"] = 1
    skip: int = Field(default=0, ge=0)
    when: When | None = None
    delay: Seconds = Field(default=0, ge=0, le=_LONGEST_DELAY)
    status: int | None = Field(default=None, ge=200, le=599)
    headers: dict[str, str] = Field(default_factory=dict)
    body: Any = None
    drop: bool = False
    reset: bool = False
    malformed: Literal["truncated", "html", "empty", "other"] | None = None
    rewrite: dict[str, Any] = Field(default_factory=dict)
    remove: list[str] = Field(default_factory=list)

    @field_validator("times")
    @classmethod
    def _check_times(cls, times: int | str) -> int | str:
        if isinstance(times, int) and times < 1:
            raise ValueError('give a number from 1, or "always"')
        return times

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ValueError(f"{name[:100]!r} or its value is not valid in a header")
            if name.lower() in _OUR_HEADERS:
                raise ValueError(f"the service itself sets {name}")
        return headers

    @model_validator(mode="after")
    def _check_effects(self) -> Self:
        if len(self._effects()) > 1:
            raise ValueError(f"give one of {', '.join(self._effects())}, besides delay")
        if not self._effects() and not self.delay:
            raise ValueError("give an effect: delay, status, drop, reset, malformed, rewrite or remove")
        if self.status is None and self.model_fields_set & {"headers", "body"}:
            raise ValueError("headers and body require status")
        if self.effect == "rewrite" and self.when == "before":
            raise ValueError("rewrite and remove change the response of the service: omit `when`")
        return self

    @property
    def effect(self) -> str:
        """Name of the effect."""
        return next(iter(self._effects()), "delay")

    @property
    def moment(self) -> When:
        """Time of the effect: before the request is executed, or after its changes are committed."""
        return self.when or ("after" if self.effect in {"reset", "malformed", "rewrite"} else "before")

    def _effects(self) -> list[str]:
        given = {
            "status": self.status is not None,
            "drop": self.drop,
            "reset": self.reset,
            "malformed": self.malformed is not None,
            "rewrite": bool(self.rewrite or self.remove),
        }
        return [name for name, is_given in given.items() if is_given]


class ForcedOutcome(Strict):
    """Forced outcome of the next runs of a resource. Without ``fail`` and ``chunks``, the runs end normally."""

    fail: str | None = Field(default=None, min_length=1)
    chunks: int | None = Field(default=None, ge=1, le=1_000)
    times: int = Field(default=1, ge=1, le=10_000)

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if self.fail is not None and self.chunks is not None:
            raise ValueError("give fail or chunks")
        return self


class ResourceRuns(Strict):
    """Overrides for the runs of one resource."""

    scheduling_delay: Seconds | None = Field(default=None, ge=0, le=3600)
    minimum_duration: Seconds | None = Field(default=None, ge=0, le=3600)
    scheduling_polls: int | None = Field(default=None, ge=1, le=10_000)
    running_polls: int | None = Field(default=None, ge=1, le=10_000)
    outcomes: list[ForcedOutcome] = Field(default_factory=list)
    vanish: bool = False

    @model_validator(mode="after")
    def _check_phases(self) -> Self:
        if self.scheduling_polls is not None and self.scheduling_delay is not None:
            raise ValueError("give scheduling_delay or scheduling_polls")
        if self.running_polls is not None and self.minimum_duration is not None:
            raise ValueError("give minimum_duration or running_polls")
        return self


class RunBehaviour(Strict):
    """Overrides for runs. They take precedence over the seed."""

    scheduling_delay: Seconds | None = Field(default=None, ge=0, le=3600)
    minimum_duration: Seconds | None = Field(default=None, ge=0, le=3600)
    resources: dict[str, ResourceRuns] = Field(default_factory=dict)


class SetClock(Strict):
    """Time to set the clock to."""

    now: Moment


class Advance(Strict):
    """Number of seconds to advance the clock: at most a century."""

    seconds: Seconds = Field(ge=0, le=3_155_760_000)


class Query(Strict):
    """Query over the warehouse."""

    sql: str = Field(min_length=1)


class Reset(Strict):
    """Treatment of the seed at a reset."""

    seed: Literal["keep", "drop"] = "keep"

"""Argument of the processes that the driver starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from tests.benchmarks.adapters import ADAPTERS, Adapter, Histories


@dataclass(frozen=True, slots=True)
class Plan:
    """One measurement."""

    adapter: str
    count: int
    poll: float = 1.0
    latency: float = 0.0
    ramp: float = 1.0
    histories: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> Adapter:
        if self.adapter == Histories.name:
            return Histories(**self.histories)
        return ADAPTERS[self.adapter]()

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))

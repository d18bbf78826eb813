"""
Test support for DAGs: each test gets a real service, seeded and clean.

pytest loads :mod:`datapipe_local.testing.plugin` automatically in every project whose environment has this package.
Therefore nothing is imported here or there until a test needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datapipe_local.testing.service import DatapipeLocal

__all__ = ["DatapipeLocal"]


def __getattr__(name: str) -> Any:
    if name == "DatapipeLocal":
        from datapipe_local.testing.service import DatapipeLocal

        return DatapipeLocal
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

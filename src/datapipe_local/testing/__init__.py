"""
For tests of DAGs: a real service for each of them, seeded and clean.

pytest loads :mod:`datapipe_local.testing.plugin` by itself, in every project of an environment that has this package
installed. So nothing is imported here, nor there, until a test asks for it.
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

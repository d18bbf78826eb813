"""Number of examples of property tests, by the profile of hypothesis."""

from __future__ import annotations

from hypothesis import settings

#: Default number of examples in the profile ``large``.
LARGE = 100
_LEAST = 5


def scaled(count: int) -> int:
    """Return the number of examples for a test that has ``count`` of them in the profile ``large``."""
    current = settings.default
    assert current is not None, "tests/conftest.py loads a profile"
    return max(min(_LEAST, count), count * current.max_examples // LARGE)

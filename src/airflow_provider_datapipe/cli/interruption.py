"""Handling of SIGTERM, which for example a canceled CI job sends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopped_as_by_hand() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that cleanup code runs."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt

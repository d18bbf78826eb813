"""Being stopped by whoever runs a command, such as a CI job that is canceled."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopped_as_by_hand() -> Iterator[None]:
    """Take SIGTERM for Ctrl-C, so that what has to be put back is put back."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt

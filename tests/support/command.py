"""Entry point of the commands of the tests."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import NoReturn


def run_command(main: Callable[[], int]) -> NoReturn:
    """Run a command, and exit with its status, or with 130 after Ctrl-C."""
    try:
        status = main()
    except KeyboardInterrupt:
        print("\nInterrupted; everything that was started is stopped.", file=sys.stderr)
        status = 128 + signal.SIGINT
    sys.exit(status)

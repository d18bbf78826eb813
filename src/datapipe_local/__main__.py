"""``python -m datapipe_local`` and the command ``datapipe-local``."""

from __future__ import annotations

import sys

from datapipe_local.cli import main

if __name__ == "__main__":
    sys.exit(main())

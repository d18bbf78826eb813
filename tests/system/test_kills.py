"""Short soak test of the local service; ``python -m tests.system.kills`` runs a long one."""

from __future__ import annotations

import random
from pathlib import Path

from tests.system.kills import Soak

KILLS = 3


def test_kills_lose_and_duplicate_no_data(tmp_path: Path) -> None:
    counts = Soak(tmp_path, random.Random(11)).run(KILLS)  # noqa: S311 - no secret
    assert counts.kills == KILLS
    # The service was killed during its work.
    assert counts.interrupted > 0
    assert counts.acknowledged > 0
    assert counts.written > counts.sent > 0
    assert counts.twice == 0

"""Short soak test of the local service; ``python -m tests.system.kills`` runs a long one."""

from __future__ import annotations

import random
from pathlib import Path

from tests.system.kills import Soak

KILLS = 3


def test_nothing_is_lost_halved_or_done_twice_by_kills(tmp_path: Path) -> None:
    kept = Soak(tmp_path, random.Random(11)).run(KILLS)  # noqa: S311 - no secret
    assert kept.kills == KILLS
    # It was killed in the middle of its work.
    assert kept.interrupted > 0
    assert kept.acknowledged > 0
    assert kept.written > kept.sent > 0
    assert kept.twice == 0

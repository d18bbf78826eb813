from __future__ import annotations

from contextlib import closing

import pytest

from datapipe_local.errors import RunError
from datapipe_local.spill import DiskSet
from tests.support.room import no_file_beyond


def test_a_set_knows_what_was_added() -> None:
    with closing(DiskSet()) as texts:
        texts.update(str(number) for number in range(10_000))
        texts.update(["", "7", "é"])
        assert all(text in texts for text in ("0", "9999", "", "é"))
        assert "10000" not in texts
        assert None not in texts


def test_no_room_for_it_fails_the_run() -> None:
    with (
        closing(DiskSet()) as texts,
        no_file_beyond(100_000),
        pytest.raises(RunError, match="no room for what is needed on the way"),
    ):
        texts.update(f"{number} {'x' * 500}" for number in range(20_000))

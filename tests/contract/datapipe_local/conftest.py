from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.datapipe_local.partner import Partner


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of source files: ``people.csv``, ``orders.jsonl``."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "people.csv").write_text("id,name,age\n1,Ada,36\n2,Bob,NA\n3,Cyd,7\n")
    (folder / "orders.jsonl").write_text('{"person": 1, "sum": 10.5}\n{"person": 1, "sum": 2}\n')
    return folder


@pytest.fixture(scope="module")
def partner() -> Iterator[Partner]:
    with Partner() as partner:
        yield partner

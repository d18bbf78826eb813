"""Test that runs the examples of the control plane page in order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.datapipe_local.controlled import seed
from tests.support.local_service import LocalService

PAGE = Path(__file__).parents[3] / "docs" / "local_control.md"


@pytest.mark.slow
def test_the_examples_succeed(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 12
    with LocalService(seed(data), control=True) as service:
        monkeypatch.setenv("DATAPIPE_LOCAL_URL", service.base_url)
        monkeypatch.setenv("DATAPIPE_LOCAL_API_KEY", service.api_key)
        namespace: dict[str, Any] = {}
        for number, block in enumerate(blocks):
            # Run an example after all runs of the previous one have ended.
            while number and any(run["finished_at"] is None for run in service.journal_runs()):
                pass
            exec(compile(block, f"{PAGE.name}, example {number}", "exec"), namespace)  # noqa: S102 - our own page
        namespace["service"].close()

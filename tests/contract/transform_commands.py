"""Folder of transforms, and commands on it in this process, for tests of ``plan``, ``deploy`` and ``pull``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from airflow_provider_datapipe.cli.program import main
from tests.contract.seeds import NIGHTLY, send

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.local_service import LocalService

TWINS = {"name": "Twins", "cron_schedule": "0 2 * * *"}
SEED: dict[str, Any] = {
    "runs": {"minimum_duration": 0.05},
    "orchestrations": [NIGHTLY, TWINS | {"id": "twin.1"}, TWINS | {"id": "twin.2"}],
}
FILES = {
    "staging/orders.sql": "SELECT 1 AS id, 'paid' AS status\n",
    "marts/paid.sql": """-- ---
-- materialization: table
-- schedule: 0 4 * * *
-- orchestration: Nightly
-- documentation: |
--   Who has paid.
--   */ -- all of it
-- checks:
--   - not_null: id
--   - unique: id
--   - accepted_values: {column: status, values: [paid]}
--   - SELECT count(*) > 0 FROM {{this}}
-- ---
SELECT * FROM {{model.staging.orders}} -- the last
;
""",
    "marts/odd name.sql": "-- ---\n-- name: top\n-- folder: ''\n-- ---\nSELECT id FROM {{model.marts.paid}}\n",
}


class CommandResult(NamedTuple):
    """Exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def items(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.json["items"]
        return items

    def each(self, field: str) -> dict[str, Any]:
        """Return a field of each item by its name."""
        return {item["name"]: item[field] for item in self.items}


Say = Callable[..., CommandResult]


@pytest.fixture
def say(
    service: LocalService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Say:
    """Return a function that runs a command on the folder `models`."""
    monkeypatch.setenv("DATAPIPE_API_KEY", service.api_key)
    (tmp_path / "models").mkdir()

    def run(command: str, *options: str) -> CommandResult:
        common = ["--base-url", service.base_url, "--quiet", "--transforms", str(tmp_path / "models")]
        common += ["--poll-interval", "0.05"] if command == "deploy" else []
        status = main([command, *common, *options])
        captured = capsys.readouterr()
        return CommandResult(status, captured.out, captured.err)

    return run


@pytest.fixture
def models(tmp_path: Path, say: Say) -> Path:
    """Return the folder with some files."""
    folder = tmp_path / "models"
    put(folder, FILES)
    return folder


@pytest.fixture
def deployed(say: Say, models: Path) -> Path:
    """Return the folder after its deployment."""
    assert say("deploy").status == 0
    return models


def put(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())


def transforms_by_path(service: LocalService) -> dict[str, dict[str, Any]]:
    return {f"{each['folder_path']}/{each['name']}".lstrip("/"): each for each in list_transforms(service)}


def list_transforms(service: LocalService) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = send(service, "GET", "/transforms?limit=100")["data"]
    return listed

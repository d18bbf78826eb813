"""Tests of the DAGs on the migration page, on the local service, also with a lost response."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow_versions import IMPORT_DAG_BAG
from tests.support.documents import ROOT, pages
from tests.support.local_service import LocalService

FOLDER = ROOT / "docs" / "migration"
DAGS = ("http_operator", "poller", "moved")
#: Each of them once as it is, and once where the answer to the request for a run is lost.
RUN_ALL = """
import json, sys
import httpx
from airflow.utils.db import initdb

initdb()
service = httpx.Client(base_url=sys.argv[1], headers={"x-api-key": sys.argv[2]})
bag = DagBag(sys.argv[3])
assert not bag.import_errors, bag.import_errors
lost = [{"path": "/elt_streams/*/request_run", "drop": True, "when": "after"}]
said = {}
for name in sys.argv[4:]:
    for case, faults in (("", []), ("lost", lost)):
        service.put("/_local/faults", json=faults).raise_for_status()
        before = service.get("/_local/journal", params={"kind": "runs"}).json()["total"]
        state = str(bag.dags[name].test().state)
        after = service.get("/_local/journal", params={"kind": "runs"}).json()["total"]
        said[f"{name} {case}".strip()] = [state, after - before]
print("said:", json.dumps(said))
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "people.csv").write_text("id,name\n1,Ada\n")
    seed = {
        "connections": [
            {"id": "files", "integration_id": "files", "label": "Files", "settings": {"path": str(folder)}},
        ],
        "elt_syncs": [
            {
                "id": "shop",
                "connection_id": "files",
                "destination_schema_name": "shop",
                "source_streams": [{"id": "shop.people", "name": "people", "file": "people.csv"}],
            }
        ],
    }
    with LocalService(seed, control=True) as running:
        yield running


@pytest.mark.slow
def test_before_and_after(service: LocalService, tmp_path: Path) -> None:
    ours: dict[str, Any] = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key}
    ours["extra"] = {"poll_interval": 0.1}
    http: dict[str, Any] = {"conn_type": "http", "host": service.base_url, "extra": service.headers}
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "DATAPIPE"))}
    env |= {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(FOLDER),
        "AIRFLOW_CONN_DATAPIPE_DEFAULT": json.dumps(ours),
        "AIRFLOW_CONN_SERVICE_HTTP": json.dumps(http),
    }
    done = subprocess.run(  # noqa: S603 - our own docs
        [sys.executable, "-c", IMPORT_DAG_BAG + RUN_ALL, service.base_url, service.api_key, str(FOLDER), *DAGS],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    said = re.search("^said: (.*)$", done.stdout, re.MULTILINE)
    assert said, done.stdout[-3000:] + done.stderr[-3000:]
    assert json.loads(said[1]) == {
        "http_operator": ["success", 1],
        "poller": ["success", 1],
        "moved": ["success", 1],
        # The run was carried out, and the task has failed: its retry starts another.
        "http_operator lost": ["failed", 1],
        "poller lost": ["failed", 1],
        "moved lost": ["success", 1],
    }


def test_the_page_includes_them() -> None:
    included = re.findall(r"^```\{literalinclude\} migration/(\w+)\.py$", pages()["docs/migration.md"], re.MULTILINE)
    assert sorted(included) == sorted(DAGS)

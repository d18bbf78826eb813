"""Tests of the files that `datapipe pull` writes, and of an empty plan after it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.contract.seeds import send
from tests.contract.transform_commands import SEED, Say, list_transforms, put, transforms_by_path
from tests.support.examples import scaled
from tests.support.local_service import LocalService

__all__ = ["SEED"]

pytestmark = pytest.mark.slow


#: Texts that requests can contain.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30) | st.sampled_from(
    ["*/", "-- ---\n", "a\n---\nb", " trails \n\n", "'", '"', "{{ ds }}", "{%", "a\r\nb", "\x85\u2028", "none", "~",
     "❤\n"]
)  # fmt: skip
NAME = st.from_regex(re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,5}"), fullmatch=True) | st.sampled_from(
    ["con", "NUL", "a", "A", "model", "true", "null", "x" * 63]
)
STATES = ["draft", "view", "table", "changed", "view to be", "failed"]


def sql(text: str, blank: str) -> str:
    quoted = text.replace("'", "''")
    comment = re.sub(r"[^ -~]|[*/]", "", text)
    return f"{blank}SELECT 1 AS id, '{quoted}' AS text -- {comment}\n/* {comment} */{blank}"


TRANSFORM = st.fixed_dictionaries(
    {
        "name": NAME,
        "folder_path": st.just("") | st.lists(NAME, min_size=1, max_size=3).map("/".join),
        "state": st.sampled_from(STATES),
        "sql_template": st.builds(sql, TEXT, st.sampled_from(["", " ", "\n", "\t\r\n"])),
        "documentation": st.none() | TEXT,
        "cron": st.none() | st.sampled_from(["* * * * *", "0 4 * * 1-5", "*/5  * * * *"]),
        "orchestration": st.none() | st.sampled_from(["nightly", "twin.1"]),
    }
)


DUPLICATE = {"name": "A", "folder_path": "", "state": "draft", "sql_template": "SELECT 1"}
DUPLICATE |= dict.fromkeys(("documentation", "cron", "orchestration"), "")


def make(client: httpx.Client, wanted: dict[str, Any]) -> None:
    """Create a transform in some state, unless the service refuses it."""
    state = wanted["state"]
    body = {name: wanted[name] for name in ("name", "folder_path", "sql_template")}
    if wanted["documentation"] is not None:
        body["documentation"] = wanted["documentation"]
    if state == "failed":
        body["sql_template"] = "SELECT error('no')"
    body["materialization"] = "view" if state in ("view", "draft") else "table"
    answer = client.post("/transforms", json=body)
    if answer.is_error:
        # The service reserves some names.
        assert answer.status_code == 400, answer.text
        return
    if state == "draft":
        return
    place = f"/transforms/{answer.json()['id']}"
    if client.post(f"{place}/publish", json={"wait_for_completion": True}).is_error:
        return
    if wanted["orchestration"]:
        attached = {"orchestration_workflow_id": wanted["orchestration"]}
        client.post(f"{place}/orchestration", json=attached).raise_for_status()
    if wanted["cron"] and state != "view":
        client.patch(place, json={"cron_expression": wanted["cron"]}).raise_for_status()
    if state == "changed":
        client.patch(place, json={"sql_template": f"{wanted['sql_template']} -- and more"}).raise_for_status()
    if state == "view to be":
        client.patch(place, json={"materialization": "view"}).raise_for_status()


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (each for each in folder.rglob("*") if each.is_file())
    return {str(each.relative_to(folder)): (each.read_bytes(), each.stat().st_mtime_ns) for each in files}


def emptied(folder: Path) -> None:
    for each in sorted(folder.rglob("*"), reverse=True):
        each.rmdir() if each.is_dir() else each.unlink()


@settings(max_examples=scaled(25), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(wanted=st.lists(TRANSFORM, min_size=1, max_size=5))
@example(wanted=[DUPLICATE, DUPLICATE])
@example(wanted=[DUPLICATE, DUPLICATE, DUPLICATE | {"name": "Other"}])
def test_pulled_files_match_the_service(
    wanted: list[dict[str, Any]], service: LocalService, say: Say, tmp_path: Path
) -> None:
    folder = tmp_path / "models"
    emptied(folder)
    service.reset()
    with httpx.Client(base_url=service.base_url, headers=service.headers, timeout=60) as client:
        for each in wanted:
            make(client, each)
    current = transforms_by_path(service)
    paths = Counter(f"{each['folder_path']}/{each['name']}".lstrip("/") for each in list_transforms(service))
    duplicates = {path for path, count in paths.items() if count > 1}
    pulled = say("pull", "--format", "json")
    assert pulled.status == bool(duplicates), pulled
    assert pulled.each("result") == {path: "failed" if path in duplicates else "created" for path in current}
    if not current.keys() - duplicates:
        # An empty folder is an error, because --delete-orphans would delete all transforms.
        assert "there is no .sql file" in say("plan", "--delete-orphans").err
        return
    planned = say("plan", "--delete-orphans", "--format", "json")
    unique = current.keys() - duplicates
    actions = {name: action for name, action in planned.each("action").items() if name not in duplicates}
    assert actions == dict.fromkeys(unique, "none")
    before = content(folder)
    assert len({path.casefold() for path in before}) == len(unique)
    again = say("pull")
    assert (again.status, content(folder)) == (bool(duplicates), before), again
    # The files recreate the same state in an empty service.
    if not duplicates:
        service.reset()
        assert say("deploy").status == 0
        assert say("plan").status == 0


def test_pull_overwrites_changed_files_only_with_force(service: LocalService, say: Say, deployed: Path) -> None:
    before = content(deployed)
    assert say("pull").out == "3 unchanged.\n"
    assert content(deployed) == before
    ids = {name: each["id"] for name, each in transforms_by_path(service).items()}
    changed = {"sql_template": "SELECT 4 AS id, 'paid' AS status", "documentation": "Not in the file."}
    send(service, "PATCH", f"/transforms/{ids['staging/orders']}", json=changed)
    send(service, "PATCH", f"/transforms/{ids['marts/paid']}", json={"cron_expression": "9 9 * * *"})
    send(service, "POST", "/transforms", json={"name": "new", "sql_template": "SELECT 1"})
    result = say("pull")
    assert (result.status, content(deployed)) == (1, before)
    assert "2 files differ from the service: marts/paid.sql, staging/orders.sql. Nothing was written" in (result.err)
    assert say("pull", "--force").status == 0
    after = content(deployed)
    # Only differing files were written.
    written = {path for path in after if after[path] != before.get(path)}
    assert written == {"marts/paid.sql", "staging/orders.sql", "new.sql"}
    orders = "-- ---\n-- publish: false\n-- ---\nSELECT 4 AS id, 'paid' AS status\n"
    assert after["staging/orders.sql"][0].decode() == orders
    # The service does not know checks, so pull keeps them.
    paid = after["marts/paid.sql"][0].decode()
    assert "-- schedule: 9 9 * * *\n" in paid
    assert "-- - SELECT count(*) > 0 FROM {{this}}\n" in paid
    assert paid.endswith("SELECT * FROM {{model.staging.orders}} -- the last\n;\n")
    assert say("plan").status == 0


def test_pull_keeps_comments_if_only_the_sql_differs(service: LocalService, say: Say, tmp_path: Path) -> None:
    block = "-- ---\n-- # Ask Ada.\n-- materialization:   view\n-- ---\n"
    put(tmp_path / "models", {"a.sql": f"{block}SELECT 1"})
    assert say("deploy").status == 0
    path = f"/transforms/{transforms_by_path(service)['a']['id']}"
    send(service, "PATCH", path, json={"sql_template": "SELECT 2", "publish": True})
    assert say("pull", "--force").status == 0
    assert (tmp_path / "models/a.sql").read_text() == f"{block}SELECT 2\n"


def test_pull_keeps_windows_line_ends(service: LocalService, say: Say, tmp_path: Path) -> None:
    text = "-- ---\r\n-- documentation: old\r\n-- ---\r\nSELECT 1,\r\n 2\r\n"
    put(tmp_path / "models", {"a.sql": text})
    assert say("deploy").status == 0
    send(service, "PATCH", f"/transforms/{transforms_by_path(service)['a']['id']}", json={"documentation": "new"})
    assert say("pull", "--force").status == 0
    assert (tmp_path / "models/a.sql").read_bytes() == text.replace("old", "new").encode()


def test_orphaned_files_are_deleted_only_with_the_option(service: LocalService, say: Say, deployed: Path) -> None:
    send(service, "DELETE", f"/transforms/{transforms_by_path(service)['top']['id']}")
    result = say("pull")
    warning = "Warning: marts/odd name.sql: the service does not have its transform."
    assert (result.status, result.out) == (0, f"{warning}\n2 unchanged.\n")
    result = say("pull", "--delete-orphans")
    assert (result.status, result.out) == (0, "deleted file marts/odd name.sql\n1 deleted, 2 unchanged.\n")
    assert say("plan").status == 0


@pytest.mark.parametrize("place", ["a file", "missing"])
def test_pull_creates_the_folder(place: str, service: LocalService, say: Say, tmp_path: Path) -> None:
    send(service, "POST", "/transforms", json={"name": "a", "folder_path": "b", "sql_template": "SELECT 1"})
    (tmp_path / "models").rmdir()
    if place == "a file":
        (tmp_path / "models").write_text("")
        result = say("pull")
        assert result.status == 1
        assert "models/b/a.sql can't be written" in result.err
        return
    assert say("pull").status == 0
    assert (tmp_path / "models/b/a.sql").read_text() == (
        "-- ---\n-- materialization: view\n-- orchestration: none\n-- documentation: ''\n-- publish: false\n-- ---\n"
        "SELECT 1\n"
    )

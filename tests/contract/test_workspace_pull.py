"""Tests that a pulled workspace file describes any state of the local service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from airflow_provider_datapipe.cli.service import Service
from airflow_provider_datapipe.pipelines.plan import Action, Item, Report
from airflow_provider_datapipe.pipelines.workspace.applying import apply
from airflow_provider_datapipe.pipelines.workspace.document import Document
from airflow_provider_datapipe.pipelines.workspace.planning import make_plan
from airflow_provider_datapipe.pipelines.workspace.pulling import pull
from airflow_provider_datapipe.pipelines.workspace.round_trip import dump
from airflow_provider_datapipe.runs.task_state import NoTaskState
from tests.contract.seeds import elt_sync, send
from tests.support.examples import scaled
from tests.support.local_service import LocalService
from tests.support.workspaces import SECRET, asked, seeds, source

NAME = "workspace.yaml"


@pytest.fixture(scope="module")
def running() -> Iterator[LocalService]:
    with LocalService(control=True) as service:
        yield service


@pytest.fixture(scope="module")
def service(running: LocalService) -> Iterator[Service]:
    with asked(running) as service:
        yield service


def seed_service(running: LocalService, seed: dict[str, Any]) -> None:
    send(running, "POST", "/_local/reset", json={"seed": "drop"})
    send(running, "POST", "/_local/seed", json=seed)


def planned(service: Service, text: str, *, delete_orphans: bool = False) -> list[Item]:
    """Return the items that differ from the file."""
    plan = make_plan(service, Document(text, NAME, {}), delete_orphans=delete_orphans).plan
    return [*plan.changes, *plan.orphans]


def applied(service: Service, text: str) -> Report:
    return apply(service, Document(text, NAME, {}), NoTaskState(), delete_orphans=True, wait_for_run=5)


Change = tuple[str, Callable[[httpx.Client], httpx.Response], str | None]


def changes_of(seed: dict[str, Any]) -> list[Change]:
    """Return possible changes of a service: the kind, the request and the field (None for the whole resource)."""

    def post(kind: str, field: str | None, path: str, body: Any = None) -> Change:
        return kind, lambda client: client.post(path, json=body), field

    def delete(kind: str, path: str) -> Change:
        return kind, lambda client: client.delete(path), None

    found = [post("orchestration", None, "/orchestrations", {"name": "A new one", "cron_schedule": "7 7 * * *"})]
    found += [
        post("orchestration", "cron_schedule", f"/orchestrations/{each['id']}", {"cron_schedule": "7 7 * * *"})
        for each in seed["orchestrations"]
    ]
    for sync in seed["elt_syncs"]:
        path = f"/elt_syncs/{sync['id']}"
        found.append(post("elt_sync", "enabled", f"{path}/{'disable' if sync['enabled'] else 'enable'}"))
        if sync["sync_interval"] is not None and sync["orchestration_workflow_id"] is None:
            found.append(post("elt_sync", "sync_interval", path, {"sync_interval": "7 7 * * *"}))
        for each in seed["orchestrations"]:
            if each["id"] != sync["orchestration_workflow_id"]:
                body = {"orchestration_workflow_id": each["id"]}
                found.append(post("elt_sync", "orchestration", f"{path}/orchestration", body))
        for stream in sync["source_streams"]:
            of_stream = f"/elt_streams/{stream['id']}"
            found.append(
                post("elt_stream", "sync_interval", f"{of_stream}/set_sync_interval", {"sync_interval": "7 7 * * *"})
            )
            flipped = {"name": stream["name"], "full_sync_always": not stream["full_sync_always"]}
            flipped["enabled_history_table"] = stream["enabled_history_table"]
            found.append(
                post("elt_stream", "full_sync_always", f"{path}/source_streams", {"source_streams": [flipped]})
            )
            found.append(delete("elt_stream", of_stream))
    for reverse_sync in seed["reverse_etl_syncs"]:
        done = "deactivate" if reverse_sync["enabled"] else "activate"
        found.append(post("reverse_etl_sync", "enabled", f"/reverse_etl_syncs/{reverse_sync['id']}/{done}"))
    return found


@pytest.mark.slow
@settings(max_examples=scaled(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=seeds(), data=st.data())
def test_pulled_file_matches_the_service(
    service: Service, running: LocalService, client: httpx.Client, seed: dict[str, Any], data: st.DataObject
) -> None:
    seed_service(running, seed)
    if data.draw(st.booleans(), "a transform is deleted"):
        client.delete("/transforms/model.1").raise_for_status()
    text = pull(service, None, NAME).text
    assert SECRET not in text
    assert pull(service, None, NAME).text == text
    assert pull(service, text, NAME).text == text
    assert planned(service, text) == []

    kind, change, field = data.draw(st.sampled_from(changes_of(seed)), "a change")
    change(client).raise_for_status()
    items = planned(service, text)
    assert [item.kind for item in items] == [kind]
    if field is None:
        assert items[0].orphan or items[0].action is Action.CREATE
    else:
        # The service does not show the schedule of an attached sync, so it disappears with the new orchestration.
        hidden = {"sync_interval"} if field == "orchestration" else set()
        assert {each.field for each in items[0].changes} - hidden == {field}

    # Pull updates the file, and apply restores the state of the old file.
    changed = pull(service, text, NAME).text
    assert changed != text
    assert planned(service, changed) == []
    report = applied(service, text)
    assert [item.error for item in report.items if item.error] == []
    assert planned(service, text) == []


def seed_syncs(running: LocalService, *names: str) -> None:
    """Seed the service with syncs that have the same streams."""

    def sync(name: str) -> dict[str, Any]:
        streams = [{"id": f"{name}.{each}", "name": each, "table": each} for each in ("orders", "people")]
        return elt_sync(name, connection_id="in.1", elt_settings={"name": "shop"}, source_streams=streams)

    seed_service(running, {"connections": [source("in.1", "Shop")], "elt_syncs": [sync(name) for name in names]})


def test_pull_keeps_the_text_of_unchanged_scalars(service: Service, running: LocalService) -> None:
    seed_syncs(running, "raw")
    scalars = "2024-01-01T10:00:00.100Z, 2001-12-15 2:59:43.10, -0x1F, &a 1_000, *a, 1E+3, True, ~, '='"
    text = f"""\
elt_syncs:
  - connection_label: Shop
    destination_schema_name: raw
    enabled: false
    settings: {{a: [{scalars}]}}
"""
    assert pull(service, text, NAME).text == text.replace("enabled: false", "enabled: true")


def test_pull_keeps_windows_line_ends(service: Service, running: LocalService) -> None:
    seed_syncs(running, "raw")
    text = """\
# Shop
elt_syncs:  # all
  # first
  - connection_label: Shop

    destination_schema_name: raw  # schema
    enabled: false
    settings: {a: "x\\r\\ny"}
    # last
# end
""".replace("\n", "\r\n")
    assert pull(service, text, NAME).text == text.replace("enabled: false", "enabled: true")
    mixed = text.replace("\r\n", "\n", 1)
    assert pull(service, mixed, NAME).text == text.replace("enabled: false", "enabled: true").replace("\r\n", "\n")


@pytest.mark.parametrize(
    "comment", ["  # One.", "\n      # One.", "  # One.\n      # Two.", "\n      # One.\n      # Two."]
)
def test_pull_keeps_the_comments_of_an_emptied_list(
    service: Service, running: LocalService, client: httpx.Client, comment: str
) -> None:
    seed_syncs(running, "raw")
    for name in ("orders", "people"):
        client.delete(f"/elt_streams/raw.{name}").raise_for_status()
    text = f"""\
elt_syncs:
  - connection_label: Shop
    source_streams:{comment}
      - orders
      - people
    destination_schema_name: raw
"""
    pulled = pull(service, text, NAME).text
    assert planned(service, pulled) == []
    assert pulled.split("#")[1:] == text.replace("      - orders\n      - people\n", "").split("#")[1:]


SHARING = """\
elt_syncs:
  - &first
    connection_label: Shop
    destination_schema_name: first
    enabled: true
    settings: &settings
      # Of the shop.
      name: shop
    source_streams: &streams
      # By priority.
      - {name: orders, full_sync_always: false}
      - people
  - connection_label: Shop
    destination_schema_name: second
    settings: *settings
    source_streams: *streams
  - <<: *first
    destination_schema_name: third
"""


@pytest.mark.parametrize(
    ("requests", "kept"),
    [
        (["POST /elt_syncs/first/disable"], ["*settings"]),
        (["POST /elt_syncs/third/disable"], ["*settings", "*streams"]),
        (["DELETE /elt_streams/first.people"], ["*settings"]),
        (["DELETE /elt_streams/second.people"], ["*first", "*settings"]),
        (["DELETE /elt_streams/first.orders", "DELETE /elt_streams/second.orders"], ["*settings"]),
        (["DELETE /elt_streams/third.orders"], ["*settings", "*streams"]),
        (["DELETE /elt_syncs/first"], []),
        (["DELETE /elt_syncs/second"], ["*first"]),
    ],
    ids=", ".join,
)
def test_pull_changes_one_of_several_entries_with_aliases(
    service: Service, running: LocalService, client: httpx.Client, requests: list[str], kept: list[str]
) -> None:
    seed_syncs(running, "first", "second", "third")
    assert planned(service, SHARING) == []
    for request in requests:
        client.request(*request.split()).raise_for_status()
    text = pull(service, SHARING, NAME).text
    assert planned(service, text) == []
    assert [each for each in ("*first", "*settings", "*streams") if each in text] == kept
    assert text.count("# By priority.") == (requests != ["DELETE /elt_syncs/first"])
    assert pull(service, text, NAME).text == text


#: Fields that an entry can omit.
OPTIONAL_FIELDS = {
    "orchestrations": ["cron_schedule"],
    "elt_syncs": ["sync_interval", "orchestration", "enabled", "start_date", "source_streams"],
    "reverse_etl_syncs": ["operation", "enabled", "schedule"],
}


def shortened(text: str, data: st.DataObject) -> Any:
    """Return the file with some fields and sections left out."""
    tree = YAML(typ="safe").load(text)
    for section, fields in OPTIONAL_FIELDS.items():
        if data.draw(st.integers(0, 4), f"without {section}?") == 0:
            del tree[section]
            continue
        for entry in tree[section]:
            for field in data.draw(st.lists(st.sampled_from(fields), unique=True), "omitted"):
                # A reverse ETL sync has both fields of its schedule, or none.
                for each in ("sync_interval", "orchestration", "orchestration_id") if field == "schedule" else (field,):
                    entry.pop(each, None)
            for place, stream in enumerate(entry.get("source_streams", [])):
                if data.draw(st.booleans(), "by name alone"):
                    entry["source_streams"][place] = stream["name"]
            if section == "elt_syncs":
                entry["settings"] = {"token": "${TOKEN}"}
    return tree


def declared_fields(tree: Any) -> Any:
    return {
        section: [set(entry) - {"orchestration_id", "orchestration", "sync_interval"} for entry in entries]
        for section, entries in tree.items()
    }


@settings(max_examples=scaled(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=seeds(), data=st.data())
def test_pull_keeps_omitted_fields_of_an_existing_file(
    service: Service, running: LocalService, client: httpx.Client, seed: dict[str, Any], data: st.DataObject
) -> None:
    for sync in seed["elt_syncs"]:
        sync["elt_settings"] = {"token": "${TOKEN}"}
    seed_service(running, seed)
    tree = shortened(pull(service, None, NAME).text, data)
    text = f"# Owner: data team.\n{dump(tree)}"
    assert pull(service, text, NAME).text == text

    for kind, change, field in data.draw(st.lists(st.sampled_from(changes_of(seed)), max_size=4), "changes"):
        if field is not None or kind == "orchestration":
            change(client).raise_for_status()
    sync_ids = [each["id"] for each in seed["elt_syncs"]]
    for sync_id in data.draw(st.lists(st.sampled_from(sync_ids), max_size=1)) if sync_ids else []:
        client.delete(f"/elt_syncs/{sync_id}").raise_for_status()
    pulled = pull(service, text, NAME).text
    assert pulled.startswith("# Owner: data team.\n")
    plan = make_plan(service, Document(pulled, NAME, {"TOKEN": "${TOKEN}"})).plan
    assert (plan.changes, plan.orphans) == ((), ())
    now = YAML(typ="safe").load(pulled)
    assert now.keys() == tree.keys()
    known = [entry for entries in declared_fields(tree).values() for entry in entries]
    new = {"cron_schedule"} | {"source_streams", "enabled"}
    for entries in declared_fields(now).values():
        for entry in entries:
            # Existing entries have the same fields as before, and new entries have all fields.
            assert entry in known or entry & new
    assert pull(service, pulled, NAME).text == pulled

"""Tests of reverse ETL: sent records, refused records and retries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.api.models.reverse_etl import FailedRecord, FailedRecords, ReverseEtlSync
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.partner import Partner
from tests.support.local_service import LocalService

Json = dict[str, Any]


def sync(sync_id: str, source_id: str, destination: str, key: str | None = "id", **more: Any) -> Json:
    mappings: list[Json] = [
        {"source_property_id": "id", "destination_property_id": "person_id"},
        {"source_property_id": "NAME", "destination_property_id": "full_name"},
    ]
    for mapping in mappings:
        if mapping["source_property_id"] == key:
            mapping["primary_key"] = True
    return {
        "id": sync_id,
        "source_id": source_id,
        "destination_connection_id": destination,
        "object_type_id": "people",
        "operation": {"mode": "upsert" if key else "insert", "mappings": mappings},
        **more,
    }


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, partner: Partner) -> Iterator[LocalService]:
    folder = tmp_path_factory.mktemp("source")
    seed = {
        "connections": [
            {"id": "data", "integration_id": "files", "label": "Data", "settings": {"path": str(folder)}},
            {"id": "partner", "integration_id": "http", "label": "Partner", "settings": {"url": partner.url}},
            {"id": "exports", "integration_id": "jsonl", "label": "Exports", "settings": {"path": "./exports"}},
        ],
        "elt_syncs": [
            {
                "id": "shop",
                "connection_id": "data",
                "destination_schema_name": "shop",
                "source_streams": [{"id": "people", "name": "people", "file": "people.csv"}],
            }
        ],
        "transforms": [
            {"id": "people_out", "name": "people_out", "sql_template": "SELECT * FROM {{raw.shop.people}}"},
            {"id": "narrow", "name": "narrow", "sql_template": "SELECT id, name FROM {{raw.shop.people}}"},
            {"id": "draft", "name": "draft", "sql_template": "SELECT 1 AS id, 'x' AS name"},
            {
                "id": "odd",
                "name": "odd",
                "publish": True,
                "sql_template": "SELECT * FROM (VALUES (1, 'a'), (1, 'b'), (NULL, 'c'), (2, 'd|e')) AS t (id, name)",
            },
        ],
        "reverse_etl_syncs": [
            sync("to_partner", "people_out", "partner"),
            sync("to_file", "people_out", "exports", sync_interval="0 4 * * *"),
            sync("narrow_out", "narrow", "exports", object_type_id="narrow"),
            sync("idle", "people_out", "exports", enabled=False),
            sync("too_early", "draft", "exports"),
            sync("odd_rows", "odd", "exports", object_type_id="odd"),
            sync("inserts", "people_out", "exports", None, object_type_id="inserts"),
            sync("misspelt", "people_out", "exports", "id", object_type_id="x")
            | {
                "operation": {
                    "mode": "insert",
                    "mappings": [{"source_property_id": "nam", "destination_property_id": "n"}],
                }
            },
        ],
    }
    with LocalService(seed) as service:
        write(folder, {1: "Ada", 2: "Bob", 3: "Cyd"})
        service.folder.joinpath("source").symlink_to(folder)
        api = Api(service)
        api.run_stream("people")
        for transform in ("people_out", "narrow"):
            api.post(f"/transforms/{transform}/publish")
        yield service


@pytest.fixture
def api(service: LocalService, partner: Partner) -> Api:
    partner.reset()
    return Api(service)


def write(folder: Path, people: dict[int, str]) -> None:
    folder.joinpath("people.csv").write_text("id,name\n" + "".join(f"{id},{name}\n" for id, name in people.items()))  # noqa: A001


def load(api: Api, service: LocalService, people: dict[int, str]) -> None:
    write(service.folder / "source", people)
    assert api.run_stream("people").status == "COMPLETED"


def counts(api: Api, sync_id: str) -> tuple[Any, ...]:
    run = api.run_reverse(sync_id)
    assert run.status == "COMPLETED", run.error
    return run.total_rows, run.distinct_rows, run.new_rows, run.synced_rows, run.failed_rows


def failures(api: Api, sync_id: str) -> dict[str, str]:
    records: list[FailedRecord] = list(
        FailedRecords.model_validate(
            api.get("/reverse_etl_failed_records", reverse_etl_sync_id=sync_id, limit=100)
        ).data
    )
    assert api.get("/reverse_etl_failed_records/count", reverse_etl_sync_id=sync_id) == {"count": len(records)}
    return {record.record_id: record.error for record in records}


def test_syncs_are_listed_and_given_with_settings(api: Api) -> None:
    syncs = [ReverseEtlSync.model_validate(entry) for entry in api.all_pages("/reverse_etl_syncs", limit=2)]
    assert [entry.id for entry in syncs][:4] == ["to_partner", "to_file", "narrow_out", "idle"]
    assert all("settings" not in entry for entry in api.get("/reverse_etl_syncs")["data"])
    assert api.get("/reverse_etl_syncs/to_file")["settings"] == {}
    to_file = ReverseEtlSync.model_validate(api.get("/reverse_etl_syncs/to_file"))
    assert to_file.destination_integration_id == "jsonl"
    assert (to_file.source_type, to_file.source_id, to_file.transform_id) == ("Transform", "people_out", "people_out")
    assert to_file.operation is not None
    assert [mapping.primary_key for mapping in to_file.operation.mappings] == [True, False]


def test_only_what_is_new_changed_or_reset_is_sent(api: Api, service: LocalService, partner: Partner) -> None:
    load(api, service, {1: "Ada", 2: "Bob", 3: "Cyd"})
    partner.rule = lambda record: (422, {"message": "no Bobs"}) if record["full_name"] == "Bob" else (200, {})
    assert counts(api, "to_partner") == (3, 3, 3, 2, 1)
    assert {path for path, _ in partner.received} == {"/people"}
    assert partner.records[0] == {"person_id": 1, "full_name": "Ada"}
    assert failures(api, "to_partner") == {"2": "no Bobs"}

    # Nothing has changed: what was taken is there, what was refused would be refused again.
    partner.received.clear()
    assert counts(api, "to_partner") == (3, 3, 0, 0, 0)
    assert partner.records == []
    assert failures(api, "to_partner") == {"2": "no Bobs"}

    # One that changed, one that is new.
    load(api, service, {1: "Ada L.", 2: "Bob", 3: "Cyd", 4: "Dan"})
    assert counts(api, "to_partner") == (4, 4, 2, 2, 0)
    assert sorted(record["person_id"] for record in partner.records) == [1, 4]

    # A reset is no longer a failure, and is sent by the next run; here it is refused again.
    partner.received.clear()
    query = "reverse_etl_sync_id=to_partner"
    api.post(f"/reverse_etl_failed_records/retry?{query}", {"record_ids": ["1", "nope"]}, status=204)
    assert failures(api, "to_partner") == {"2": "no Bobs"}
    api.post(f"/reverse_etl_failed_records/retry?{query}", {"record_ids": ["2"]}, status=204)
    assert failures(api, "to_partner") == {}
    assert partner.records == []
    assert counts(api, "to_partner") == (4, 4, 1, 0, 1)
    assert failures(api, "to_partner") == {"2": "no Bobs"}

    # The partner has come round.
    partner.reset()
    api.post(f"/reverse_etl_failed_records/retry_all?{query}", status=204)
    assert counts(api, "to_partner") == (4, 4, 1, 1, 0)
    assert partner.records == [{"person_id": 2, "full_name": "Bob"}]
    assert failures(api, "to_partner") == {}

    # A failure that is mended at its source resolves itself.
    partner.rule = lambda record: (400, {"error": "too short"}) if len(record["full_name"]) < 3 else (200, {})
    load(api, service, {1: "Al"})
    assert counts(api, "to_partner") == (1, 1, 1, 0, 1)
    load(api, service, {1: "Ali"})
    assert counts(api, "to_partner") == (1, 1, 1, 1, 0)
    assert failures(api, "to_partner") == {}


def test_each_record_has_a_line_of_a_file_beside_the_seed(api: Api, service: LocalService) -> None:
    load(api, service, {1: "Ada", 2: "Bob"})
    assert counts(api, "to_file") == (2, 2, 2, 2, 0)
    load(api, service, {1: "Ada", 2: "Bobby"})
    assert counts(api, "to_file") == (2, 2, 1, 1, 0)
    lines = (service.folder / "exports" / "people.jsonl").read_text().splitlines()
    assert [json.loads(line)["full_name"] for line in lines] == ["Ada", "Bobby"]


def test_rows_that_are_odd(api: Api, service: LocalService) -> None:
    # Of two rows with one key the first in order is the record; a row without a key is none.
    assert counts(api, "odd_rows") == (4, 3, 3, 2, 1)
    lines = (service.folder / "exports" / "odd.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["full_name"] for line in lines) == ["a", "d|e"]
    assert list(failures(api, "odd_rows").values()) == [
        "The key column id is null, so that the record cannot be told from others."
    ]


def test_without_a_key_each_row_is_a_record(api: Api, service: LocalService) -> None:
    load(api, service, {1: "Ada", 2: "Bob"})
    assert counts(api, "inserts") == (2, 2, 2, 2, 0)
    load(api, service, {1: "Ada", 2: "Bobby"})
    assert counts(api, "inserts") == (2, 2, 1, 1, 0)


def test_who_is_not_eligible(api: Api) -> None:
    assert "deactivated" in api.refused("POST", "/reverse_etl_syncs/idle/request_run", 400)["message"]
    said = api.refused("POST", "/reverse_etl_syncs/too_early/request_run", 400)
    assert said["error_code"] == "not_eligible"
    assert "'draft'" in said["message"]
    api.post("/reverse_etl_syncs/idle/activate", status=204)
    assert api.run_reverse("idle").status == "COMPLETED"
    api.post("/reverse_etl_syncs/idle/deactivate", status=204)
    assert api.get("/reverse_etl_syncs/idle")["enabled"] is False


def test_a_column_that_is_not_there_fails_the_run(api: Api) -> None:
    run = api.run_reverse("misspelt")
    assert run.status == "FAILED"
    assert run.error == (
        "models.people_out has no column 'nam' (did you mean 'name'?): it has id, name. Correct the mapping."
    )


def test_a_conflict_names_the_run_that_is_going(api: Api, service: LocalService, partner: Partner) -> None:
    load(api, service, {n: f"P{n}" for n in range(100, 103)})
    refused_once: list[str] = []

    def rule(record: Json) -> tuple[int, Json]:
        if not refused_once:
            # Asked by the partner itself, while the run is surely going.
            answer = Api(service).refused("POST", "/reverse_etl_syncs/to_partner/request_run", 409)
            refused_once.append(answer["active_run_id"])
        return 200, {}

    partner.rule = rule
    run = api.run_reverse("to_partner")
    assert refused_once == [run.id]
    runs = api.all_pages("/reverse_etl_sync_runs", reverse_etl_sync_id="to_partner", limit=2)
    assert runs[0]["id"] == run.id
    assert runs[::-1] == api.all_pages(
        "/reverse_etl_sync_runs", reverse_etl_sync_id="to_partner", limit=3, sort_direction="asc"
    )


@pytest.mark.slow
def test_destination_500_fails_the_run_and_the_next_one_resumes(
    api: Api, service: LocalService, partner: Partner
) -> None:
    load(api, service, {n: f"Q{n}" for n in range(200, 204)})
    partner.rule = lambda record: (500, {}) if record["person_id"] > 201 else (200, {})
    run = api.run_reverse("to_partner")
    assert run.status == "FAILED"
    assert run.error == (
        f"The destination {partner.url}/people answered 500 Internal Server Error for record '202': see to it, then"
        " run the sync again."
    )
    assert (run.synced_rows, run.failed_rows) == (2, 0)
    partner.reset()
    assert counts(api, "to_partner")[2:] == (2, 2, 0)
    assert [record["person_id"] for record in partner.records] == [202, 203]


def test_a_source_that_lost_its_column_fails_the_run(api: Api, service: LocalService) -> None:
    (service.folder / "source" / "people.csv").write_text("id,nom\n1,Ada\n")
    assert api.run_stream("people").status == "COMPLETED"
    run = api.run_reverse("narrow_out")
    assert run.status == "FAILED"
    assert str(run.error).startswith("The source, the transform 'narrow', cannot be read: Binder Error: ")
    # One that takes what there is has new columns.
    assert [column["name"] for column in api.get("/transforms/people_out/schema")["data"]] == ["id", "nom"]
    api.refused("GET", "/transforms/narrow/schema", 400)

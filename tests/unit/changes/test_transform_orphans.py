"""Deleting transforms: what reads others first, and nothing that is still read."""

from __future__ import annotations

from types import SimpleNamespace

from airflow_provider_datapipe.changes.transform_folder import DesiredTransform
from airflow_provider_datapipe.changes.transform_orphans import in_order_of_deletion
from airflow_provider_datapipe.runs.steps import drive
from tests.unit.runs.model_service import ModelService, page, transform


def test_readers_go_first_and_what_is_read_stays() -> None:
    sql = {
        "a": "SELECT 1",
        "b": "FROM {{model.a}}",
        "c": "FROM {{model.b}}",
        # A circle of drafts.
        "x": "FROM {{model.y}}",
        "y": "FROM {{model.x}}",
        "elsewhere": "FROM {{model.c}}",
    }
    there = {name: [transform(id=name, name=name, folder_path="", sql_template=text)] for name, text in sql.items()}
    there["twin"] = [transform(id=f"twin{n}", name="twin", folder_path="", sql_template="SELECT 1") for n in (1, 2)]
    sending = SimpleNamespace(id="s1", transform_id="twin2", source_id="twin2")
    service = ModelService(reverse_etl_syncs__list=[page(sending)], reverse_etl_syncs__list_=[page(sending)])

    def ordered(*names: str) -> list[tuple[str, list[str]]]:
        orphans = [each for name in names for each in there[name]]
        desired = [DesiredTransform("kept", "", "FROM {{model.a}}")]
        found = drive(in_order_of_deletion(orphans, desired, there, ()), service.send, service.sleep)
        return [(each["key"], each["read_by"]) for each in found]

    assert ordered("a", "b", "c") == [("c", ["elsewhere"]), ("b", []), ("a", ["kept"])]
    assert ordered("x", "y") == [("x", []), ("y", [])]
    assert ordered("twin") == [("twin (twin1)", []), ("twin (twin2)", ["the reverse ETL sync s1"])]

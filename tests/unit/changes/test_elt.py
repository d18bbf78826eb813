"""Changes of ELT syncs and streams where something goes wrong, or can't be told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_datapipe.api.endpoints import elt_syncs as endpoints
from airflow_provider_datapipe.api.errors import (
    ConflictError,
    InvalidInputError,
    InvalidRequestError,
    NotFoundError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.models.connections import Connection
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.api.models.elt_syncs import AddedSourceStreams, EltSync
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.changes import elt_streams, elt_syncs
from airflow_provider_datapipe.changes.change import Change, IfExists, ResourceExistsError
from airflow_provider_datapipe.runs.names import AmbiguousNameError, UnknownNameError
from airflow_provider_datapipe.runs.steps import Steps, drive
from tests.unit.runs.model_service import ModelService, page

TIMES = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
LOST = TransportError("lost", sent=True)
GONE = NotFoundError("none", status=404)


def sync(sync_id: str = "y", **more: Any) -> EltSync:
    fields = {
        "id": sync_id,
        "account_id": "a",
        "source_connection_id": "c",
        "source_integration_id": "files",
        "destination_connection_id": "w",
        "destination_integration_id": "warehouse",
        "destination_schema_name": "raw",
        "enabled": True,
        "status": "RUNNING",
        "sync_interval": "0 3 * * *",
    }
    return EltSync.model_validate(fields | TIMES | more)


def stream(stream_id: str, name: str, **more: Any) -> EltStream:
    fields = {
        "id": stream_id,
        "elt_sync_id": "y",
        "name": name,
        "full_sync_at_midnight": False,
        "full_sync_always": False,
        "protected_from_full_sync": False,
        "excluded_substreams": [],
        "enabled_history_table": False,
    }
    return EltStream.model_validate(fields | TIMES | more)


def run(steps: Steps[Change], **answers: list[Any]) -> tuple[Change, ModelService]:
    service = ModelService(**answers)
    result = drive(steps, service.send, service.sleep)
    assert json.loads(json.dumps(result)) == result
    return result, service


def created(if_exists: IfExists = "update", **changed: Any) -> Steps[Change]:
    arguments: dict[str, Any] = {
        "sync_interval": "0 3 * * *",
        "elt_settings": None,
        "data_start_date": None,
        "if_exists": if_exists,
    }
    return elt_syncs.create("c", None, "raw", **(arguments | changed))


@pytest.mark.parametrize("error", [LOST, ServerError("down", status=503)])
def test_a_sync_that_was_created_without_an_answer_is_found(error: Exception) -> None:
    result, service = run(created(), elt_syncs__list=[page(), page(), page(sync())], elt_syncs__create=[error])
    assert (result["action"], result["id"]) == ("created", "y")
    assert service.asked.count("elt_syncs.create") == 1


@pytest.mark.parametrize(
    "error",
    [ConflictError("has ten already", status=409), InvalidRequestError("taken", status=400), LOST],
)
def test_a_sync_that_was_not_created_is_the_services_error(error: Exception) -> None:
    with pytest.raises(type(error)):
        run(created(), elt_syncs__list=[page()], elt_syncs__create=[error])


def test_two_syncs_with_the_same_schema_are_named_by_their_ids() -> None:
    with pytest.raises(AmbiguousNameError, match="y1, y2"):
        run(created(), elt_syncs__list=[page(sync("y1"), sync("y2"))])


def test_an_existing_sync_is_rejected_by_its_id_on_request() -> None:
    steps = elt_syncs.create(
        None, "Shop", "raw", sync_interval="0 3 * * *", elt_settings=None, data_start_date=None, if_exists="fail"
    )
    with pytest.raises(ResourceExistsError, match="of connection Shop that fills 'raw' already: y"):
        run(steps, connections__list=[page(Connection(id="c", label="Shop"))], elt_syncs__list=[page(sync())])


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"sync_interval": "hourly"}, InvalidInputError, "sync_interval"),
        ({"sync_interval": ""}, ValueError, "sync_interval is empty"),
        ({"elt_settings": "[1]"}, ValueError, "elt_settings must be a mapping"),
        ({"elt_settings": {"x": float("nan")}}, InvalidInputError, "elt_settings"),
        ({"data_start_date": "yesterday"}, InvalidInputError, "start_date"),
        ({"data_start_date": ""}, ValueError, "data_start_date is empty"),
        ({"if_exists": "replace"}, ValueError, "if_exists must be"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_is_sent(
    changed: dict[str, Any], error: type[Exception], says: str
) -> None:
    service = ModelService()
    with pytest.raises(error, match=says):
        drive(created(**changed), service.send, service.sleep)
    assert service.asked == []


def test_settings_are_not_shown() -> None:
    secret = {"token": "hunter2"}
    after = sync(config={"sourceSettings": secret}, something_new="hunter2")
    result, service = run(created(elt_settings=json.dumps(secret)), elt_syncs__list=[page()], elt_syncs__create=[after])
    assert "hunter2" not in json.dumps(result)
    assert "hunter2" not in repr(service.requests[-1])
    assert service.requests[-1].body is not None
    assert service.requests[-1].body.as_json()["elt_settings"] == secret
    with pytest.raises(InvalidInputError) as refused:
        run(created(elt_settings=secret, sync_interval="no"))
    assert "hunter2" not in str(refused.value)


def test_a_result_does_not_grow_with_the_streams() -> None:
    after = sync(source_streams=[stream(str(number), f"s{number}").model_dump() for number in range(1000)])
    result, _ = run(created(), elt_syncs__list=[page()], elt_syncs__create=[after])
    assert len(json.dumps(result)) < 1000


def updated(**given: Any) -> Steps[Change]:
    return elt_syncs.update("y", None, **({"sync_interval": None, "elt_settings": None} | given))


@pytest.mark.parametrize(
    ("given", "before", "after", "changed"),
    [
        ({"sync_interval": "0 3 * * *"}, {}, {}, False),
        ({"sync_interval": "0 4 * * *"}, {}, {"sync_interval": "0 4 * * *"}, True),
        ({"elt_settings": {"a": 1}}, {"config": {"a": 1}}, {"config": {"a": 1}}, False),
        ({"elt_settings": {"a": 1}}, {"config": {}}, {"config": {"a": 1}}, True),
        # Where the service does not show it, nobody can tell.
        ({"elt_settings": {"a": 1}}, {}, {}, True),
        ({"sync_interval": "0 3 * * *"}, {"sync_interval": None}, {"sync_interval": None}, True),
    ],
)
def test_whether_an_update_changed_anything(
    given: dict[str, Any], before: dict[str, Any], after: dict[str, Any], *, changed: bool
) -> None:
    result, service = run(updated(**given), elt_syncs__get=[sync(**before)], elt_syncs__update=[sync(**after)])
    assert (result["changed"], result["action"]) == (changed, "updated" if changed else "none")
    # Sent all the same: what was read before may be old.
    assert service.asked == ["elt_syncs.get", "elt_syncs.update"]


def test_an_update_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to change"):
        run(updated())


@pytest.mark.parametrize("value", ["", "None", "yes", None])
def test_tables_are_dropped_only_where_that_is_clear(value: Any) -> None:
    with pytest.raises(ValueError, match="remove_data_references must be True or False"):
        run(elt_syncs.delete("y", None, remove_data_references=value, if_missing="succeed"))


@pytest.mark.parametrize(("value", "sent"), [(False, {}), ("False", {}), ("true", {"removeDataReferences": "true"})])
def test_tables_stay_unless_it_is_said(value: Any, sent: dict[str, str]) -> None:
    steps = elt_syncs.delete("y", None, remove_data_references=value, if_missing="succeed")
    _, service = run(steps, elt_syncs__get=[sync()], elt_syncs__delete=[None])
    assert dict(service.requests[-1].query) == sent


def test_deleting_what_is_not_there_can_be_a_failure() -> None:
    with pytest.raises(NotFoundError):
        run(elt_syncs.delete("y", None, remove_data_references=False, if_missing="fail"), elt_syncs__get=[GONE])
    with pytest.raises(UnknownNameError):
        run(
            elt_streams.delete(elt_streams.target(None, "y", None, "orders"), "fail"),
            elt_streams__list=[page(stream("c", "customers"))],
        )


def added(*wanted: Any, before: list[EltStream], after: list[EltStream], new: list[EltStream]) -> Change:
    result, service = run(
        elt_syncs.add_streams("y", None, list(wanted)),
        elt_streams__list=[page(*before), page(*after)],
        elt_syncs__add_source_streams=[AddedSourceStreams(source_streams=tuple(new))],
    )
    # Sending again what has names does no harm.
    assert service.requests[1].endpoint.repeat.is_safe
    assert not endpoints.add_source_streams("y", source_streams=[]).endpoint.repeat.is_safe
    return result


def test_streams_are_told_apart_by_what_became_of_them() -> None:
    orders, users, items = stream("1", "orders"), stream("2", "users"), stream("3", "items")
    always = stream("2", "users", full_sync_always=True, updated_at="2026-02-01T00:00:00Z")
    touched = stream("1", "orders", updated_at="2026-02-01T00:00:00Z")
    result = added(
        "orders",
        {"name": "users", "full_sync_always": True},
        {"name": "ITEMS"},
        before=[orders, users],
        after=[touched, always, items],
        new=[items],
    )
    assert (result["action"], result["changed"]) == ("source_streams_added", True)
    assert result["details"] == {
        "added": ["ITEMS"],
        "updated": ["users"],
        "unchanged": ["orders"],
        "stream_ids": {"orders": "1", "users": "2", "ITEMS": "3"},
    }


def test_names_that_differ_in_case_are_different_streams() -> None:
    both = [stream("1", "orders"), stream("2", "Orders")]
    result = added("Orders", "orders", before=both, after=both, new=[])
    assert result["details"]["stream_ids"] == {"Orders": "2", "orders": "1"}
    assert (result["action"], result["changed"]) == ("none", False)


def test_what_the_service_does_not_show_counts_as_updated() -> None:
    there = [stream("1", "orders")]
    result = added({"name": "orders", "hashed_columns": ["email"]}, before=there, after=there, new=[])
    assert (result["action"], result["details"]["updated"]) == ("source_streams_updated", ["orders"])


def test_a_list_that_lags_behind_does_not_hide_what_is_new() -> None:
    result = added("orders", before=[], after=[], new=[stream("1", "orders")])
    assert result["details"]["added"] == ["orders"]
    assert result["details"]["stream_ids"] == {"orders": "1"}


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ([], "source_streams is empty"),
        ("", "source_streams.0. has no name"),
        ("None", "source_streams must be"),
        ([{"full_sync_always": True}], "source_streams.0. has no name"),
        ([["orders"]], "source_streams.0. must be a mapping"),
        ('["orders", ""]', "source_streams.1. has no name"),
    ],
)
def test_streams_that_are_none_are_said(wanted: Any, says: str) -> None:
    service = ModelService()
    with pytest.raises(ValueError, match=says):
        drive(elt_syncs.add_streams("y", None, wanted), service.send, service.sleep)
    assert service.asked == []


def test_a_misspelt_option_of_a_stream_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="full_sync_allways"):
        run(elt_syncs.add_streams("y", None, [{"name": "a", "full_sync_allways": True}]), elt_streams__list=[page()])


def test_attaching_to_a_missing_orchestration_changes_nothing() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean Nightly"):
        run(
            elt_syncs.attach("y", None, None, "nightly"),
            orchestrations__list=[page(Orchestration(id="o", name="Nightly"))],
        )


@pytest.mark.parametrize(
    ("before", "after", "changed"), [("0 5 * * *", "0 5 * * *", False), (None, "0 5 * * *", True), (None, None, True)]
)
def test_whether_a_streams_schedule_is_new(before: str | None, after: str | None, *, changed: bool) -> None:
    result, _ = run(
        elt_streams.set_interval(elt_streams.target("1", None, None, None), "0 5 * * *"),
        elt_streams__get=[stream("1", "orders", sync_interval=before)],
        elt_streams__set_sync_interval=[stream("1", "orders", sync_interval=after)],
    )
    assert result["changed"] == changed


def test_full_refresh_of_a_disabled_sync_is_a_service_error() -> None:
    with pytest.raises(InvalidRequestError, match="disabled"):
        run(
            elt_streams.request_full_refresh(elt_streams.target("1", None, None, None), reset_history_table=False),
            elt_streams__get=[stream("1", "orders")],
            elt_streams__request_full_refresh=[InvalidRequestError("it is disabled", status=400)],
        )

"""Changes of ELT syncs and streams: invalid arguments, ambiguous responses, and secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_datapipe.api.endpoints import elt_syncs as endpoints
from airflow_provider_datapipe.api.errors import InvalidInputError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.api.models.elt_syncs import AddedSourceStreams
from airflow_provider_datapipe.flows import Flow
from airflow_provider_datapipe.resources import elt_streams, elt_syncs
from airflow_provider_datapipe.resources.base import Change
from airflow_provider_datapipe.runs.models import RunTarget
from airflow_provider_datapipe.runs.names import UnknownNameError
from tests.unit.changes.fake_service import GONE, body_of, build, run
from tests.unit.runs.model_service import ModelService, page, stream


def target(**given: str) -> Flow[RunTarget]:
    names = ("stream_id", "stream_name", "sync_id", "destination_schema_name")
    return elt_streams.target(**{name: given.get(name) for name in names})


def by_id() -> Flow[RunTarget]:
    return target(stream_id="1")


def sync(**more: Any) -> Any:
    return build("elt_sync", **more)


def created(**changed: Any) -> Flow[Change]:
    given = {"sync_interval": "0 3 * * *", "elt_settings": None, "data_start_date": None, "if_exists": "update"}
    return elt_syncs.create("c", None, "raw", **(given | changed))


def updated(**given: Any) -> Flow[Change]:
    return elt_syncs.update("x", None, **({"sync_interval": None, "elt_settings": None} | given))


def added(wanted: Any) -> Flow[Change]:
    return elt_syncs.add_streams("x", None, wanted)


def deleted(value: Any, if_missing: Any = "succeed") -> Flow[Change]:
    return elt_syncs.delete("x", None, remove_data_references=value, if_missing=if_missing)


@pytest.mark.parametrize(
    ("flow", "error", "message"),
    [
        (created(sync_interval="hourly"), InvalidInputError, "sync_interval"),
        (created(sync_interval=""), ValueError, "sync_interval is empty"),
        (created(elt_settings="[1]"), ValueError, "elt_settings must be a mapping"),
        (created(elt_settings={"x": float("nan")}), InvalidInputError, "elt_settings"),
        (created(data_start_date="yesterday"), InvalidInputError, "start_date"),
        (created(data_start_date=""), ValueError, "data_start_date is empty"),
        (created(if_exists="replace"), ValueError, "if_exists must be"),
        (updated(), ValueError, "nothing to change"),
        *((deleted(each), ValueError, "remove_data_references must be True or") for each in ("", "None", "yes", None)),
        (added([]), ValueError, "source_streams is empty"),
        (added(""), ValueError, "source_streams.0. has no name"),
        (added("None"), ValueError, "source_streams must be"),
        (added([{"full_sync_always": True}]), ValueError, "source_streams.0. has no name"),
        (added([["orders"]]), ValueError, "source_streams.0. must be a mapping"),
        (added('["orders", ""]'), ValueError, "source_streams.1. has no name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_arguments_are_refused_without_a_request(
    flow: Flow[Change], error: type[Exception], message: str
) -> None:
    service = ModelService()
    with pytest.raises(error, match=message):
        service.run(flow)
    assert service.asked == []


def test_result_and_errors_contain_no_settings() -> None:
    secret = {"token": "hunter2"}
    after = sync(config={"sourceSettings": secret}, something_new="hunter2")
    result, service = run(created(elt_settings=json.dumps(secret)), elt_syncs__list=[page()], elt_syncs__create=[after])
    assert "hunter2" not in json.dumps(result)
    assert "hunter2" not in repr(service.requests[-1])
    assert body_of(service.requests[-1])["elt_settings"] == secret
    with pytest.raises(InvalidInputError) as refused:
        run(created(elt_settings=secret, sync_interval="no"))
    assert "hunter2" not in str(refused.value)


def test_size_of_a_result_does_not_depend_on_the_streams() -> None:
    after = sync(source_streams=[stream(str(number), f"s{number}").model_dump() for number in range(1000)])
    result, _ = run(created(), elt_syncs__list=[page()], elt_syncs__create=[after])
    assert len(json.dumps(result)) < 1000


@pytest.mark.parametrize(
    ("given", "before", "after", "changed"),
    [
        ({"sync_interval": "0 3 * * *"}, {}, {}, False),
        ({"sync_interval": "0 4 * * *"}, {}, {"sync_interval": "0 4 * * *"}, True),
        ({"elt_settings": {"a": 1}}, {"config": {"a": 1}}, {"config": {"a": 1}}, False),
        ({"elt_settings": {"a": 1}}, {"config": {}}, {"config": {"a": 1}}, True),
        ({"elt_settings": {"a": [True]}}, {"config": {"a": [1]}}, {"config": {"a": [True]}}, True),
        ({"elt_settings": {"a": [1.0]}}, {"config": {"a": [1]}}, {"config": {"a": [1.0]}}, False),
        # If the service does not show a field, the result is "changed".
        ({"elt_settings": {"a": 1}}, {}, {}, True),
        ({"sync_interval": "0 3 * * *"}, {"sync_interval": None}, {"sync_interval": None}, True),
    ],
)
def test_an_update_reports_whether_it_changed_anything(
    given: dict[str, Any], before: dict[str, Any], after: dict[str, Any], *, changed: bool
) -> None:
    result, service = run(updated(**given), elt_syncs__get=[sync(**before)], elt_syncs__update=[sync(**after)])
    assert (result["changed"], result["action"]) == (changed, "updated" if changed else "none")
    # The update is sent even without a difference, because the first response may be stale.
    assert service.asked == ["elt_syncs.get", "elt_syncs.update"]


@pytest.mark.parametrize(
    ("shown", "wanted", "is_sent"),
    [
        ({"a": 1}, {"a": True}, True),
        ({"a": {"b": [0]}}, {"a": {"b": [False]}}, True),
        ({"a": [1]}, {"a": [1, 1]}, True),
        ({"a": {"b": [1, True]}}, {"a": {"b": [1.0, True]}}, False),
    ],
)
def test_settings_are_compared_as_json(shown: Any, wanted: Any, *, is_sent: bool) -> None:
    before, after = (sync(config=config, destination_schema_name="raw") for config in (shown, wanted))
    result, service = run(
        created(elt_settings=wanted), elt_syncs__list=[page(before)], elt_syncs__get=[before], elt_syncs__update=[after]
    )
    assert result["changed"] == ("elt_syncs.update" in service.asked) == is_sent


@pytest.mark.parametrize(("value", "sent"), [(False, {}), ("False", {}), ("true", {"removeDataReferences": "true"})])
def test_tables_are_dropped_only_on_request(value: Any, sent: dict[str, str]) -> None:
    _, service = run(deleted(value), elt_syncs__get=[sync()], elt_syncs__delete=[None])
    assert dict(service.requests[-1].query) == sent


def test_if_missing_fail_raises_for_a_missing_resource() -> None:
    with pytest.raises(NotFoundError):
        run(deleted(value=False, if_missing="fail"), elt_syncs__get=[GONE])
    flow = elt_streams.delete(target(sync_id="x", stream_name="orders"), "fail")
    with pytest.raises(UnknownNameError):
        run(flow, elt_streams__list=[page(stream("c", "customers"))])


ORDERS, USERS, ITEMS = stream("1", "orders"), stream("2", "users"), stream("3", "items")
LATER = {"updated_at": "2026-02-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("wanted", "before", "after", "new", "action", "details"),
    [
        pytest.param(
            ["orders", {"name": "users", "full_sync_always": True}, {"name": "ITEMS"}],
            [ORDERS, USERS],
            [stream("1", "orders", **LATER), stream("2", "users", full_sync_always=True, **LATER), ITEMS],
            [ITEMS],
            "source_streams_added",
            {
                "added": ["ITEMS"],
                "updated": ["users"],
                "unchanged": ["orders"],
                "stream_ids": {"orders": "1", "users": "2", "ITEMS": "3"},
            },
            id="added, updated and unchanged",
        ),
        pytest.param(
            ["Orders", "orders"],
            [ORDERS, stream("2", "Orders")],
            [ORDERS, stream("2", "Orders")],
            [],
            "none",
            {"stream_ids": {"Orders": "2", "orders": "1"}},
            id="names that differ in case",
        ),
        pytest.param(
            [{"name": "orders", "hashed_columns": ["email"]}],
            [ORDERS],
            [ORDERS],
            [],
            "source_streams_updated",
            {"updated": ["orders"]},
            id="an option that the service does not show",
        ),
        pytest.param(
            ["orders"],
            [],
            [],
            [ORDERS],
            "source_streams_added",
            {"added": ["orders"], "stream_ids": {"orders": "1"}},
            id="a stale list",
        ),
    ],
)
def test_added_streams_are_reported(
    wanted: list[Any],
    before: list[EltStream],
    after: list[EltStream],
    *,
    new: list[EltStream],
    action: str,
    details: dict[str, Any],
) -> None:
    result, service = run(
        added(wanted),
        elt_streams__list=[page(*before), page(*after)],
        elt_syncs__add_source_streams=[AddedSourceStreams(source_streams=tuple(new))],
    )
    assert (result["action"], result["changed"]) == (action, action != "none")
    assert result["details"] | details == result["details"]
    # A request with stream names is idempotent.
    assert service.requests[1].endpoint.repeat.is_safe
    assert not endpoints.add_source_streams("x", source_streams=[]).endpoint.repeat.is_safe


def test_misspelled_stream_option_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="full_sync_allways"):
        run(added([{"name": "a", "full_sync_allways": True}]), elt_streams__list=[page()])


def test_attaching_to_a_missing_orchestration_changes_nothing() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean Nightly"):
        run(elt_syncs.attach("x", None, None, "nightly"), orchestrations__list=[page(build("orchestration"))])


@pytest.mark.parametrize(
    ("before", "after", "changed"), [("0 5 * * *", "0 5 * * *", False), (None, "0 5 * * *", True), (None, None, True)]
)
def test_schedule_of_a_stream_is_compared(before: str | None, after: str | None, *, changed: bool) -> None:
    result, _ = run(
        elt_streams.set_interval(by_id(), "0 5 * * *"),
        elt_streams__get=[stream("1", "orders", sync_interval=before)],
        elt_streams__set_sync_interval=[stream("1", "orders", sync_interval=after)],
    )
    assert result["changed"] == changed


def test_full_refresh_of_a_disabled_sync_is_a_service_error() -> None:
    with pytest.raises(InvalidRequestError, match="disabled"):
        run(
            elt_streams.request_full_refresh(by_id(), reset_history_table=False),
            elt_streams__get=[stream("1", "orders")],
            elt_streams__request_full_refresh=[InvalidRequestError("it is disabled", status=400)],
        )

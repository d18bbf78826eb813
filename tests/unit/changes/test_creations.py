"""Creation without duplicates, if a request is lost or refused or another task creates the resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import ConflictError, InvalidRequestError
from airflow_provider_datapipe.api.models.connections import Connection
from airflow_provider_datapipe.flows import Flow
from airflow_provider_datapipe.resources import elt_syncs, orchestrations
from airflow_provider_datapipe.resources.base import Change, IfExists, ResourceExistsError
from airflow_provider_datapipe.resources.reverse_etl_syncs import DeactivatedSyncs, Definition
from airflow_provider_datapipe.resources.reverse_etl_syncs import create as create_reverse_etl_sync
from airflow_provider_datapipe.runs.names import AmbiguousNameError
from airflow_provider_datapipe.runs.task_state import NoTaskState
from tests.unit.changes.fake_service import BROKEN, LOST, UNSENT, UPSERT, build, run
from tests.unit.runs.model_service import ModelService, page


def orchestration(if_exists: IfExists) -> Flow[Change]:
    return orchestrations.create("Nightly", "0 2 * * *", if_exists)


def elt_sync(if_exists: IfExists, label: str | None = None) -> Flow[Change]:
    given: dict[str, Any] = {"sync_interval": "0 3 * * *", "elt_settings": None, "data_start_date": None}
    return elt_syncs.create(None if label else "c", label, "raw", if_exists=if_exists, **given)


def reverse_etl_sync(if_exists: IfExists, **wanted: Any) -> Flow[Change]:
    given = {"object_type_id": "contact", "operation": UPSERT, "sync_interval": "0 5 * * *"}
    return create_reverse_etl_sync(
        source_id="t",
        transform_name=None,
        folder_path=None,
        destination_connection_id="c",
        destination_connection_label=None,
        wanted=Definition(**given | wanted),
        if_exists=if_exists,
        deactivated=DeactivatedSyncs(NoTaskState()),
        wait_for_run=0,
    )


#: Flows by kind. The last resource of a list is the created one. The others are similar.
FLOWS: dict[str, Callable[[IfExists], Flow[Change]]] = {
    "orchestration": orchestration,
    "elt_sync": elt_sync,
    "reverse_etl_sync": reverse_etl_sync,
}
OTHERS: dict[str, list[Any]] = {
    "orchestration": [build("orchestration", id="h", name="Hourly")],
    "elt_sync": [],
    "reverse_etl_sync": [
        build("reverse_etl_sync", id="u", source_id="u"),
        build("reverse_etl_sync", id="d", object_type_id="deal"),
    ],
}


def create(
    kind: str, listed: list[list[Any]], created: Any, if_exists: IfExists = "update"
) -> tuple[Change, ModelService]:
    pages = [page(*OTHERS[kind], *each) for each in listed]
    answers = {f"{kind}s__list": pages, f"{kind}s__create": [created]}
    result, service = run(FLOWS[kind](if_exists), **answers)
    assert service.asked.count(f"{kind}s.create") <= 1
    return result, service


@pytest.mark.parametrize("kind", FLOWS)
@pytest.mark.parametrize("error", [LOST, BROKEN], ids=["lost", "broken"])
@pytest.mark.parametrize("polls", [1, 2])
def test_a_creation_without_a_response_is_not_repeated(kind: str, error: Exception, polls: int) -> None:
    result, service = create(kind, [*[[]] * polls, [build(kind)]], error)
    assert (result["id"], result["action"], result["changed"]) == ("x", "created", True)
    assert f"{kind}s.update" not in service.asked


@pytest.mark.parametrize("kind", FLOWS)
@pytest.mark.parametrize(
    "error",
    [LOST, UNSENT, BROKEN, ConflictError("taken", status=409), InvalidRequestError("taken", status=400)],
    ids=["lost", "unsent", "broken", "conflict", "refused"],
)
def test_a_failed_creation_raises_the_error(kind: str, error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        create(kind, [[]], error)


@pytest.mark.parametrize("kind", FLOWS)
@pytest.mark.parametrize(
    "refused", [ConflictError("taken", status=409), InvalidRequestError("taken", status=400)], ids=["409", "400"]
)
def test_resource_created_by_another_task_is_kept(kind: str, refused: Exception) -> None:
    result, service = create(kind, [[], [build(kind)]], refused, "keep")
    assert (result["id"], result["action"], result["changed"]) == ("x", "none", False)
    assert service.asked == [f"{kind}s.list", f"{kind}s.create", f"{kind}s.list"]


@pytest.mark.parametrize("kind", FLOWS)
def test_an_existing_resource_can_be_kept(kind: str) -> None:
    result, service = create(kind, [[build(kind)]], None, "keep")
    assert (result["id"], result["action"]) == ("x", "none")
    assert service.asked == [f"{kind}s.list"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("orchestration", "There is an orchestration named 'Nightly' already: x"),
        ("elt_sync", "There is an ELT sync of connection c that fills 'raw' already: x"),
        ("reverse_etl_sync", "There is a reverse ETL sync of t to contact of c already: x"),
    ],
)
def test_an_existing_resource_can_be_rejected(kind: str, message: str) -> None:
    with pytest.raises(ResourceExistsError, match=message):
        create(kind, [[build(kind)]], None, "fail")


def test_an_existing_sync_is_rejected_by_the_given_label() -> None:
    connections, syncs = [page(Connection(id="c", label="Shop"))], [page(build("elt_sync"))]
    with pytest.raises(ResourceExistsError, match="of connection Shop that fills 'raw' already: x"):
        run(elt_sync("fail", "Shop"), connections__list=connections, elt_syncs__list=syncs)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("orchestration", "a, b"),
        ("elt_sync", "a, b"),
        ("reverse_etl_sync", r"2 reverse ETL syncs copy 't' to 'contact' of connection 'c': a, b\."),
    ],
)
def test_several_matching_resources_are_listed_and_kept(kind: str, message: str) -> None:
    with pytest.raises(AmbiguousNameError, match=message):
        create(kind, [[build(kind, id="a"), build(kind, id="b")]], None, "keep")

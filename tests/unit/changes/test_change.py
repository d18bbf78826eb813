"""Common parts of all changes: deletion, and creation without duplicates."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_datapipe.api.endpoints import orchestrations
from airflow_provider_datapipe.api.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.changes.change import IfMissing, created_once, deletion, if_named
from airflow_provider_datapipe.runs.names import find_orchestration
from airflow_provider_datapipe.runs.steps import drive
from airflow_provider_datapipe.runs.targets import by_id
from tests.unit.runs.model_service import ModelService, page

GONE = NotFoundError("none", status=404)
LOST = TransportError("lost", sent=True)
THERE = Orchestration(id="o", name="Nightly")


@pytest.mark.parametrize("if_missing", ["succeed", "fail"])
def test_a_deletion_whose_first_answer_was_lost_is_a_deletion(if_missing: IfMissing) -> None:
    # The client asked twice; the second answer is that there is none.
    service = ModelService(orchestrations__get=[THERE], orchestrations__delete=[GONE])
    steps = deletion(
        "orchestration",
        by_id("orchestration_id", "o"),
        orchestrations.get,
        lambda resource_id: orchestrations.delete(resource_id, cron_schedule="0 4 * * *"),
        if_missing,
    )
    result = drive(steps, service.send, service.sleep)
    assert (result["action"], result["changed"]) == ("deleted", True)


def created(**answers: list[Any]) -> Any:
    service = ModelService(**answers)
    request = orchestrations.create(name="Nightly", cron_schedule="0 4 * * *")
    steps = created_once(lambda: if_named(find_orchestration("Nightly")), request)
    return service, lambda: drive(steps, service.send, service.sleep)


@pytest.mark.parametrize("lost", [LOST, ServerError("down", status=502)])
@pytest.mark.parametrize("looks", [1, 2])
def test_a_creation_without_a_response_is_not_repeated(lost: Exception, looks: int) -> None:
    service, run = created(
        orchestrations__list=[*[page()] * looks, page(THERE)],
        orchestrations__create=[lost],
    )
    assert run() == (THERE, True)
    assert service.asked.count("orchestrations.create") == 1


@pytest.mark.parametrize("error", [LOST, TransportError("refused", sent=False), ServerError("down", status=502)])
def test_what_was_not_created_is_an_error_that_a_later_try_mends(error: Exception) -> None:
    service, run = created(orchestrations__list=[page()], orchestrations__create=[error])
    with pytest.raises(type(error)):
        run()
    assert service.asked.count("orchestrations.create") == 1


REFUSALS = [ConflictError("taken", status=409), InvalidRequestError("taken", status=400)]


@pytest.mark.parametrize("refused", REFUSALS)
def test_what_another_task_creates_meanwhile_exists_already(refused: Exception) -> None:
    service, run = created(orchestrations__list=[page(), page(THERE)], orchestrations__create=[refused])
    assert run() == (THERE, False)
    assert service.asked == ["orchestrations.list", "orchestrations.create", "orchestrations.list"]


@pytest.mark.parametrize("refused", REFUSALS)
def test_another_refusal_is_the_error_of_the_service(refused: Exception) -> None:
    _, run = created(orchestrations__list=[page()], orchestrations__create=[refused])
    with pytest.raises(type(refused), match="taken"):
        run()

"""Changes of orchestrations where something goes wrong, or was done before."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import InvalidRequestError, TransportError
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.changes import orchestrations
from airflow_provider_datapipe.changes.change import Change, ResourceExistsError
from airflow_provider_datapipe.runs.names import AmbiguousNameError, UnknownNameError
from airflow_provider_datapipe.runs.steps import Steps, drive
from tests.unit.runs.model_service import ModelService, page

LOST = TransportError("lost", sent=True)
NIGHTLY, HOURLY, TWIN = (Orchestration(id=i, name=n) for i, n in (("1", "Nightly"), ("2", "Hourly"), ("3", "Nightly")))


def run(steps: Steps[Change], **answers: list[Any]) -> tuple[Change, ModelService]:
    service = ModelService(**answers)
    return drive(steps, service.send, service.sleep), service


def test_a_creation_without_a_response_is_found_and_left_alone() -> None:
    result, service = run(
        orchestrations.create("Nightly", "0 2 * * *", "update"),
        orchestrations__list=[page(HOURLY), page(HOURLY, NIGHTLY)],
        orchestrations__create=[LOST],
    )
    assert (result["action"], result["changed"], result["id"]) == ("created", True, "1")
    assert "orchestrations.update" not in service.asked


def test_two_of_a_name_are_told_by_their_ids_and_none_is_created() -> None:
    with pytest.raises(AmbiguousNameError, match="1, 3"):
        run(orchestrations.create("Nightly", "0 2 * * *", "keep"), orchestrations__list=[page(NIGHTLY, TWIN)])


def test_one_that_is_there_is_refused_if_that_is_said() -> None:
    with pytest.raises(ResourceExistsError, match="named 'Nightly' already: 1"):
        run(orchestrations.create("Nightly", "0 2 * * *", "fail"), orchestrations__list=[page(NIGHTLY)])


def renamed(old: str, new: str | None, *there: Orchestration) -> tuple[Change, ModelService]:
    steps = orchestrations.update(None, old, new_name=new, cron_schedule="0 2 * * *")
    return run(
        steps,
        orchestrations__list=[page(*there)],
        orchestrations__update=[lambda request: Orchestration(id=request.path.rpartition("/")[2], name=new or old)],
    )


def test_a_renamed_orchestration_is_found_by_its_new_name() -> None:
    result, _ = renamed("Daily", "Nightly", NIGHTLY, HOURLY)
    assert (result["id"], result["name"]) == ("1", "Nightly")


@pytest.mark.parametrize("new", [None, "Weekly"])
def test_one_that_is_not_there_by_either_name_is_said(new: str | None) -> None:
    with pytest.raises(UnknownNameError, match="'Daily'"):
        renamed("Daily", new, NIGHTLY, HOURLY)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"new_name": None, "cron_schedule": None}, "nothing to change"),
        ({"new_name": "", "cron_schedule": None}, "new_name is empty"),
        ({"new_name": None, "cron_schedule": "None"}, "cron_schedule is empty"),
    ],
)
def test_an_update_of_nothing_is_refused_before_anything_is_sent(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        run(orchestrations.update("1", None, **given))


def test_a_schedule_that_the_service_refuses_is_its_error() -> None:
    with pytest.raises(InvalidRequestError):
        run(
            orchestrations.delete("1", None, "0 2 * * *", "succeed"),
            orchestrations__get=[NIGHTLY],
            orchestrations__delete=[InvalidRequestError("not so often", status=400)],
        )

"""Changes of orchestrations: retried, refused, and without effect."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import InvalidRequestError
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.resources import orchestrations
from airflow_provider_datapipe.resources.base import Change, IfMissing
from airflow_provider_datapipe.runs.names import UnknownNameError
from tests.unit.changes.fake_service import GONE, REFUSED, build, run
from tests.unit.runs.model_service import page

NIGHTLY = build("orchestration")


def renamed(old: str, new: str | None) -> Change:
    result, _ = run(
        orchestrations.update(None, old, new_name=new, cron_schedule="0 2 * * *"),
        orchestrations__list=[page(NIGHTLY, build("orchestration", id="2", name="Hourly"))],
        orchestrations__update=[lambda request: Orchestration(id=request.path.rpartition("/")[2], name=new or old)],
    )
    return result


def test_a_renamed_orchestration_is_found_by_its_new_name() -> None:
    result = renamed("Daily", "Nightly")
    assert (result["id"], result["name"]) == ("x", "Nightly")


@pytest.mark.parametrize("new", [None, "Weekly"])
def test_an_orchestration_without_either_name_is_an_error(new: str | None) -> None:
    with pytest.raises(UnknownNameError, match="'Daily'"):
        renamed("Daily", new)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"new_name": None, "cron_schedule": None}, "nothing to change"),
        ({"new_name": "", "cron_schedule": None}, "new_name is empty"),
        ({"new_name": None, "cron_schedule": "None"}, "cron_schedule is empty"),
    ],
)
def test_update_without_changes_is_refused_before_any_request(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(orchestrations.update("x", None, **given))


@pytest.mark.parametrize("if_missing", ["succeed", "fail"])
def test_a_repeated_deletion_of_a_deleted_resource_succeeds(if_missing: IfMissing) -> None:
    # The response to the first request was lost, and the second request found no resource.
    flow = orchestrations.delete("x", None, "0 4 * * *", if_missing)
    result, _ = run(flow, orchestrations__get=[NIGHTLY], orchestrations__delete=[GONE])
    assert (result["action"], result["changed"]) == ("deleted", True)


def test_schedule_refused_by_the_service_raises_its_error() -> None:
    flow = orchestrations.delete("x", None, "0 2 * * *", "succeed")
    with pytest.raises(InvalidRequestError):
        run(flow, orchestrations__get=[NIGHTLY], orchestrations__delete=[REFUSED])

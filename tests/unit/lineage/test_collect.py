"""Lineage of services with more resources than the lists contain."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow_provider_datapipe.api.models.transforms import AvailableReferences
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import run_blocking
from airflow_provider_datapipe.lineage.collect import Work, lineage_of
from airflow_provider_datapipe.lineage.model import Lineage
from airflow_provider_datapipe.lineage.names import Naming
from airflow_provider_datapipe.runs.models import RunTarget
from tests.unit.runs.model_service import transform


class ManyTransforms:
    """Service with only transforms. The last one is attached to an orchestration."""

    def __init__(self, count: int) -> None:
        given = {"folder_path": "f", "materialization": "view"}
        self.transforms = [transform(id=f"t{number}", name=f"n{number}", **given) for number in range(count)]
        self.transforms[-1] = self.transforms[-1].model_copy(update={"orchestration_workflow_id": "nightly"})
        self.requests: list[str] = []

    def __call__(self, request: Request[Any]) -> Any:
        """Answer a request."""
        self.requests.append(request.endpoint.name)
        known = self.transforms
        match request.endpoint.name:
            case "transforms.list":
                query = dict(request.query)
                begin, limit = int(query.get("starting_after", 0)), int(query["limit"])
                end = begin + limit
                return SimpleNamespace(data=known[begin:end], next_cursor=str(end), has_more=end < len(known))
            case "transforms.get":
                return next(each for each in known if each.id == request.path.rpartition("/")[2])
            case "transforms.available_references":
                tags = [f"model.f.{each.name}" for each in known]
                data = [{"weld_tag": tag, "type": "model_view", "dw_item_id": tag} for tag in tags]
                return AvailableReferences.model_validate({"data": data})
            case _:
                return SimpleNamespace(data=[], next_cursor=None, has_more=False)

    def lineage_of(self, kind: str, *resource_ids: str) -> Lineage:
        """Return the lineage of runs."""
        targets = [RunTarget(each, each) for each in resource_ids]
        return run_blocking(lineage_of(Work(kind, targets), Naming.of("h")), self, lambda _: None)


def test_transforms_missing_in_the_list_are_requested() -> None:
    service = ManyTransforms(400)
    lineage = service.lineage_of("transform", "t1", *(f"t{number}" for number in range(396, 400)))
    assert [each.name.name for each in lineage.outputs] == [f"model.f.n{number}" for number in (1, *range(396, 400))]
    assert service.requests.count("transforms.list") == 3
    assert service.requests.count("transforms.get") == 4


def test_incomplete_list_is_reported_as_a_problem() -> None:
    few, many = ManyTransforms(299), ManyTransforms(301)
    reported = few.lineage_of("orchestration", "nightly")
    assert ([each.name.name for each in reported.outputs], reported.problem) == (["model.f.n298"], None)
    reported = many.lineage_of("orchestration", "nightly")
    assert (reported.outputs, reported.problem) == ([], "only the first 300 items of GET /transforms were read")

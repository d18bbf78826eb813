from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args

import pendulum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from airflow_provider_datapipe.api import models
from airflow_provider_datapipe.api.endpoints import ENDPOINTS
from airflow_provider_datapipe.api.models.common import Answer, format_timestamp, parse_timestamp
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRun, EltStreamRunStatus
from airflow_provider_datapipe.api.models.transforms import Reference
from tests.support.examples import scaled
from tests.unit.api.json_of_models import objects
from tests.unit.changes.fake_service import build

for _module in pkgutil.iter_modules(models.__path__, f"{models.__name__}."):
    importlib.import_module(_module.name)


def fields_of(model: type[Answer]) -> list[tuple[str, Any]]:
    return list(model.model_fields.items())


def answers(base: type[Answer] = Answer) -> Iterator[type[Answer]]:
    for model in base.__subclasses__():
        if not model.__pydantic_generic_metadata__["parameters"]:
            yield model
        yield from answers(model)


ANSWERS = sorted(set(answers()), key=lambda model: model.__name__)

RUN = {"id": "r", "elt_sync_id": "y", "elt_stream_id": "s", "started_at": "2024-03-20T09:00:00.000Z"}


@pytest.mark.slow
@pytest.mark.parametrize("model", ANSWERS, ids=lambda model: model.__name__)
@settings(max_examples=scaled(25))
@given(st.data())
def test_answers_round_trip_without_loss(model: type[Answer], data: st.DataObject) -> None:
    sent = data.draw(objects(model))
    answer = TypeAdapter(model).validate_json(json.dumps(sent))
    assert answer.model_dump(mode="json", by_alias=True, exclude_unset=True) == sent


def test_answers_of_all_endpoints_are_tested() -> None:
    assert {endpoint.answer for endpoint in ENDPOINTS.values()} - {type(None)} <= set(ANSWERS)


def is_closed(annotation: Any) -> bool:
    """Return True if a value outside the enum would be refused."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return True
    kinds = get_args(annotation)
    # A union with str accepts values outside its enum.
    return any(is_closed(kind) for kind in kinds if str not in kinds or get_args(kind))


@pytest.mark.parametrize("model", ANSWERS, ids=lambda model: model.__name__)
def test_enums_of_answers_accept_unknown_values(model: type[Answer]) -> None:
    assert [name for name, field in fields_of(model) if is_closed(field.annotation)] == []


@given(st.sampled_from(EltStreamRunStatus) | st.text())
def test_known_enum_values_become_members_and_others_stay_text(status: str) -> None:
    run = EltStreamRun.model_validate(RUN | {"status": str(status)})
    assert run.status == status
    assert isinstance(run.status, EltStreamRunStatus) == (status in set(EltStreamRunStatus))


@pytest.mark.slow
@pytest.mark.parametrize("model", ANSWERS, ids=lambda model: model.__name__)
@settings(max_examples=scaled(5))
@given(st.data())
def test_absent_optional_fields_are_none(model: type[Answer], data: st.DataObject) -> None:
    required = {
        field.serialization_alias or field.alias or name for name, field in fields_of(model) if field.is_required()
    }
    sent = {name: value for name, value in data.draw(objects(model)).items() if name in required}
    answer = model.model_validate(sent)
    assert [getattr(answer, name) for name, field in fields_of(model) if not field.is_required()] == [None] * (
        len(model.model_fields) - len(required)
    )
    for name in required:
        with pytest.raises(ValidationError, match="required"):
            model.model_validate({key: value for key, value in sent.items() if key != name})


@pytest.mark.parametrize("text", ["", "yesterday", "2024-03-20", "09:00:00", "2024-13-20T09:00:00Z", "P1D"])
def test_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match=r"ISO 8601|time of day|DateTime"):
        EltStreamRun.model_validate(RUN | {"started_at": text})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-03-20T09:00:00.000Z", "2024-03-20T09:00:00.000Z"),
        ("2024-03-20T09:00:00Z", "2024-03-20T09:00:00.000Z"),
        ("2024-03-20T10:30:00.123456+01:30", "2024-03-20T09:00:00.123Z"),
        ("2024-03-20T09:00:00", "2024-03-20T09:00:00.000Z"),
    ],
)
def test_times_are_formatted_like_in_the_interface(text: str, expected: str) -> None:
    time = parse_timestamp(text)
    assert isinstance(time, pendulum.DateTime)
    assert format_timestamp(time) == expected


@pytest.mark.parametrize("name", ["weld_tag", "service_tag", "serviceTag"])
def test_tag_of_a_reference_has_several_field_names(name: str) -> None:
    reference = Reference.model_validate({name: "raw.a.b", "type": "raw_view", "dw_item_id": "a.b"})
    assert reference.tag == "raw.a.b"


def test_representation_hides_settings() -> None:
    sync = build("reverse_etl_sync", settings={"token": "hunter2"})
    assert sync.settings == {"token": "hunter2"}
    assert "hunter2" not in repr(sync)

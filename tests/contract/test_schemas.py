"""Tests of the models against the schemas of the interface."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from airflow_provider_datapipe.api import models
from airflow_provider_datapipe.api.models.common import Answer, Body
from airflow_provider_datapipe.api.models.integrations import IntegrationAbility
from tests.contract.interface_table import SCHEMAS

for _module in pkgutil.iter_modules(models.__path__, f"{models.__name__}."):
    importlib.import_module(_module.name)

#: What interface.md names beyond fields.md.
BEYOND = {
    "EltStreamDto": {"sync_interval"},
    "TransformDto": {"cron_expression", "rebuild_trigger"},
    "TransformCreateRequestDto": {"cron_expression"},
    "TransformUpdateRequestDto": {"cron_expression"},
}


def below(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from below(model)


#: The models by the names of the schemas that their docstrings name.
MODELS = {
    schema: model
    for base in (Answer, Body)
    for model in below(base)
    for schema in re.findall(r"``(\w+)``", model.__doc__ or "")
    if schema in SCHEMAS
}


def enum_in(annotation: Any) -> type[StrEnum]:
    found = [
        part for part in (annotation, *get_args(annotation)) if isinstance(part, type) and issubclass(part, StrEnum)
    ]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_model_has_the_fields_of_its_schema(schema: str) -> None:
    fields = {
        field.serialization_alias or field.alias or name: field for name, field in MODELS[schema].model_fields.items()
    }
    declared = [re.fullmatch(r"(\w+)(!?)=?(.*)", word) for word in SCHEMAS[schema].split()]
    expected = {match[1]: (match[2] == "!", match[3]) for match in declared if match}
    assert fields.keys() == expected.keys() | BEYOND.get(schema, set())
    for name, (required, values) in expected.items():
        assert fields[name].is_required() == required, name
        if values:
            assert set(enum_in(fields[name].annotation)) == set(values.split("|")), name


def test_the_abilities_of_integrations() -> None:
    assert set(IntegrationAbility) == {"EltSource", "ReverseEtlDestination"}

"""Random JSON objects that fit a model, for hypothesis."""

from __future__ import annotations

import datetime as dt
import types
from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

import pendulum
from annotated_types import MaxLen, MinLen
from hypothesis import strategies as st
from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from airflow_provider_datapipe.api.models.common import Answer, format_timestamp
from airflow_provider_datapipe.api.models.rules import check_cron, check_redirect_uri, refuse_null

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner, max_size=2),
    max_leaves=3,
)
TIMES = st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2100, 1, 1)).map(  # noqa: DTZ001 - hypothesis wants naive bounds
    lambda time: format_timestamp(pendulum.instance(time.replace(tzinfo=dt.UTC)))
)
CRONS = st.tuples(
    st.sampled_from(["*", "0", "*/5", "1,31", "10-20/2"]),
    st.sampled_from(["*", "23", "9-17"]),
    st.sampled_from(["*", "1", "L"]),
    st.sampled_from(["*", "12", "jan"]),
    st.sampled_from(["*", "0", "mon-fri"]),
).map(" ".join)
URIS = st.sampled_from(
    ["https://app.example.com/done", "https://a.example", "http://localhost:8080/x", "https://localhost"]
)

_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    Any: JSON,
    bool: st.booleans(),
    int: st.integers(0, 2**53),
    float: st.floats(0, 1e12),
    dt.date: st.dates().map(dt.date.isoformat),
    pendulum.DateTime: TIMES,
    types.NoneType: st.none(),
}
_BY_CHECK: dict[Any, st.SearchStrategy[Any]] = {check_cron: CRONS, check_redirect_uri: URIS}


@cache
def objects(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for JSON objects that fit a model. Those of responses also have unknown fields."""
    required = {name: _of_field(field) for name, field in _on_the_wire(model) if field.is_required()}
    optional = {name: _of_field(field) for name, field in _on_the_wire(model) if not field.is_required()}
    known = st.fixed_dictionaries(required, optional=optional)
    if not issubclass(model, Answer):
        return known
    taken = set(_names(model))
    unknown = st.text(max_size=8) | st.sampled_from(["self", "model_dump", "model_extra", "__class__", "json"])
    return st.tuples(st.dictionaries(unknown.filter(lambda name: name not in taken), JSON, max_size=2), known).map(
        lambda parts: parts[0] | parts[1]
    )


def _on_the_wire(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        yield field.serialization_alias or field.alias or name, field


def _names(model: type[BaseModel]) -> Iterator[str]:
    """Return all names of a field in JSON."""
    for name, field in model.model_fields.items():
        yield name
        if isinstance(field.validation_alias, AliasChoices):
            yield from (choice for choice in field.validation_alias.choices if isinstance(choice, str))
        elif isinstance(field.validation_alias, str):
            yield field.validation_alias


def _of_field(field: FieldInfo) -> st.SearchStrategy[Any]:
    return _of_type(field.annotation, tuple(field.metadata))


def _of_type(annotation: Any, metadata: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _of_type(arguments[0], (*arguments[1:], *metadata))
    checks = [item.func for item in metadata if isinstance(item, AfterValidator | BeforeValidator)]
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in arguments if kind is not types.NoneType or refuse_null not in checks]
        return st.one_of([_of_type(kind, metadata) for kind in kinds])
    special = next((_BY_CHECK[check] for check in checks if check in _BY_CHECK), None)
    return _of_plain_type(annotation, origin, arguments, metadata) if special is None else special


def _of_plain_type(
    annotation: Any, origin: Any, arguments: tuple[Any, ...], metadata: tuple[Any, ...]
) -> st.SearchStrategy[Any]:
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if annotation is str:
        shortest = max((item.min_length for item in metadata if isinstance(item, MinLen)), default=0)
        longest = min((item.max_length for item in metadata if isinstance(item, MaxLen)), default=8)
        return st.text(min_size=shortest, max_size=longest)
    if origin is tuple:
        return st.lists(_of_type(arguments[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(st.text(max_size=8), _of_type(arguments[1]), max_size=2)
    if issubclass(annotation, Enum):
        return st.sampled_from([member.value for member in annotation])
    assert issubclass(annotation, BaseModel)
    return objects(annotation)

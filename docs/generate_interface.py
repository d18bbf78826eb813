"""Generator of the page on the interface, from the endpoint functions and the models."""

from __future__ import annotations

import datetime as dt
import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import pendulum
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from airflow_provider_datapipe.api.endpoints import ENDPOINTS, FUNCTIONS
from airflow_provider_datapipe.api.endpoints.registry import ARGUMENTS
from airflow_provider_datapipe.api.errors import ConflictError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.api.models.common import Answer, Body, Page
from airflow_provider_datapipe.api.models.query import Query
from airflow_provider_datapipe.api.models.rules import check_cron, check_redirect_uri
from airflow_provider_datapipe.api.request import NO_CONTENT, Endpoint, Repeat

PAGE = Path(__file__).with_name("interface.md")
INTRODUCTION = Path(__file__).with_name("interface_introduction.md")

_RETRIES = {
    Repeat.READ: "yes: the request is read-only.",
    Repeat.IDEMPOTENT: "yes: a second execution has no further effect.",
    Repeat.STARTS_A_RUN: "no: a second execution may start a second run.",
    Repeat.CREATES: "no: a second execution may create a second resource.",
}
_STATUSES = {InvalidRequestError.__name__: 400, NotFoundError.__name__: 404, ConflictError.__name__: 409}
_SCALARS: dict[Any, str] = {
    Any: "any JSON",
    bool: "boolean",
    dt.date: "date",
    float: "number",
    int: "integer",
    pendulum.DateTime: "timestamp",
    str: "string",
}
#: Names of schemas at the start of a model's docstring.
_SCHEMAS = re.compile(r"((?:`\w+`, )*`\w+`)[:;.]\s*")
#: Types of texts, by the function that validates them.
_CHECKED = {check_cron: "cron expression", check_redirect_uri: "URL"}


class Docstring(NamedTuple):
    """Parts of a docstring: the text, and the meanings of parameters and of errors by name."""

    text: str
    params: dict[str, str]
    raises: dict[str, str]


def anchor(*names: str) -> str:
    """Return the target of a resource, an endpoint or a model, such as ``interface-elt-streams-get``."""
    words = "-".join(re.sub(r"(?<=[a-z])(?=[A-Z])|[._]", "-", name) for name in names)
    return f"interface-{words.lower()}"


def anchors(text: str) -> list[str]:
    """Return the targets of a page."""
    return re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE)


def page() -> str:
    """Return the text of the page."""
    homes = _homes()
    resources: dict[str, list[Endpoint[Any]]] = {}
    for name, endpoint in sorted(ENDPOINTS.items(), key=lambda item: item[0].partition(".")[0]):
        resources.setdefault(name.partition(".")[0], []).append(endpoint)
    parts = [INTRODUCTION.read_text(encoding="utf-8").rstrip()]
    for resource, endpoints in resources.items():
        module = sys.modules[f"airflow_provider_datapipe.api.endpoints.{resource}"]
        parts.append(f"({anchor(resource)})=\n\n## {resource}\n\n{_markdown(inspect.getdoc(module) or '')}")
        parts += [_model(model) for model, home in homes.items() if home == resource]
        parts += [_endpoint(endpoint) for endpoint in endpoints]
    return "\n\n".join(parts) + "\n"


def write(*_: object) -> None:
    """Write the page. Sphinx calls this function with itself as the argument."""
    text = page()
    # An unchanged file keeps its time, so that Sphinx does not read it again.
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        PAGE.write_text(text, encoding="utf-8")


def _homes() -> dict[type[BaseModel], str]:
    """Return the documented models, each with the resource whose section has its fields."""
    homes: dict[type[BaseModel], str] = {}
    nested: dict[type[BaseModel], str] = {}
    for name, endpoint in sorted(ENDPOINTS.items()):
        resource = name.partition(".")[0]
        body = ARGUMENTS[name].body
        roots = [endpoint.answer, *(field.annotation for field in (body.model_fields if body else {}).values())]
        for model in _models(roots):
            homes.setdefault(model, resource)
            for inner in _nested(model):
                nested.setdefault(inner, resource)
    # A model that an endpoint returns itself belongs to that endpoint's resource.
    return homes | {model: home for model, home in nested.items() if model not in homes}


def _models(annotations: list[Any]) -> Iterator[type[BaseModel]]:
    """Yield the models in annotations. Pages count as their items."""
    for annotation in annotations:
        if isinstance(annotation, type) and issubclass(annotation, Page):
            yield from _models([annotation.model_fields["data"].annotation])
        elif isinstance(annotation, type) and issubclass(annotation, Answer | Body):
            yield annotation
        else:
            yield from _models(list(get_args(annotation)))


def _nested(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for inner in _models([field.annotation for field in model.model_fields.values()]):
        yield inner
        yield from _nested(inner)


def _model(model: type[BaseModel]) -> str:
    """Return the section with the fields of a model."""
    text = _without_schemas(_read(inspect.getdoc(model)).text)
    meanings = _meanings(model)
    rows = [
        (f"`{_sent_name(name, field)}`", _type_of_field(field), meanings[name])
        for name, field in model.model_fields.items()
    ]
    return f"({anchor('fields', model.__name__)})=\n\n### {model.__name__}\n\n{text}\n\n" + _table(
        ("Field", "Type", "Meaning"), rows
    )


def _without_schemas(text: str) -> str:
    """Return the description of a model with the names of its schemas at the end; docstrings start with them."""
    match = _SCHEMAS.match(text)
    if match is None:
        return text
    rest = text[match.end() :]
    return "\n\n".join(filter(None, (_capitalized(rest), f"Schema: {match[1]}.")))


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the meanings of fields, including inherited ones."""
    documented = [_read(each.__doc__ and inspect.cleandoc(each.__doc__)).params for each in reversed(model.__mro__)]
    return {name: meaning for meanings in documented for name, meaning in meanings.items()}


def _endpoint(endpoint: Endpoint[Any]) -> str:
    """Return the section of an endpoint."""
    documented = _read(inspect.getdoc(FUNCTIONS[endpoint.name]))
    parts = [
        f"({anchor(endpoint.name)})=",
        f"### {endpoint.name}",
        f"`{endpoint.method} {endpoint.path}`",
        documented.text,
        f"```python\n{_signature(endpoint)}\n```",
    ]
    if documented.params:
        rows = [(f"`{name}`", *_place(endpoint.name, name), text) for name, text in documented.params.items()]
        parts.append(_table(("Argument", "Sent in", "Type", "Meaning"), rows))
    if documented.raises:
        errors = [(str(_STATUSES[name]), f"`{name}`", when) for name, when in documented.raises.items()]
        parts.append(_table(("Status", "Error", "Cause"), errors))
    parts.append(f"Response: {_response(endpoint.answer)}\n\nRetries: {_RETRIES[endpoint.repeat]}")
    return "\n\n".join(parts)


def _place(endpoint: str, argument: str) -> tuple[str, str]:
    """Return the part of the request that has an argument, with the name there if it differs, and the type."""
    places = ARGUMENTS[endpoint]
    required = inspect.signature(FUNCTIONS[endpoint]).parameters[argument].default is inspect.Parameter.empty
    if argument in places.path:
        return f"path: `{places.path[argument]}`", "string"
    model: type[BaseModel] = Query if argument in places.query else places.body or Query
    field = model.model_fields[argument]
    sent = _sent_name(argument, field)
    place = "query" if argument in places.query else "body"
    return place if sent == argument else f"{place}: `{sent}`", _type_of_field(field, required=required)


def _response(answer: Any) -> str:
    if answer is NO_CONTENT:
        return "no content."
    (model,) = _models([answer])
    link = f"[{model.__name__}](#{anchor('fields', model.__name__)})"
    if not issubclass(answer, Page):
        return f"{link}."
    alone = answer.__name__.startswith("ListOrPage")
    return f"{'array or page' if alone else 'page'} of {link}, see [pagination](#interface-pagination)."


def _signature(endpoint: Endpoint[Any]) -> str:
    """Return the call of an endpoint function, and the type of the request."""
    function = FUNCTIONS[endpoint.name]
    resource = endpoint.name.partition(".")[0]
    answer = "None" if endpoint.answer is NO_CONTENT else endpoint.answer.__name__
    lines, is_keyword = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            lines.append("    *,")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        lines.append(f"    {parameter.name}: {parameter.annotation}{default},")
    arguments = "\n" + "\n".join(lines) + "\n" if lines else ""
    return f"{resource}.{function.__name__}({arguments}) -> Request[{answer}]"


def _sent_name(name: str, field: FieldInfo) -> str:
    return field.serialization_alias or field.alias or name


def _type_of_field(field: FieldInfo, *, required: bool | None = None) -> str:
    """Return the JSON type of a field, and whether it is optional; None takes this from the field."""
    text = _type(Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation)
    if field.is_required() if required is None else required:
        return text
    default = "" if field.default is None else f", default {str(field.default).lower()}"
    return f"{text}, optional{default}"


def _type(annotation: Any) -> str:
    """Return the JSON type of an annotation."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        checks = [_CHECKED[check] for each in inner[1:] if (check := getattr(each, "func", None)) in _CHECKED]
        return checks[0] if checks else _type(inner[0])
    if origin in (Union, types.UnionType):
        # Enums accept unknown values as text. Integers are numbers, too.
        is_enum = any(isinstance(each, type) and issubclass(each, StrEnum) for each in inner)
        names = {_type(each): None for each in inner if each is not types.NoneType and not (is_enum and each is str)}
        is_any = _SCALARS[Any] in names
        return _SCALARS[Any] if is_any else "number" if "number" in names else " or ".join(names)
    if origin is tuple:
        return f"array of {_type(inner[0])}"
    if origin is Literal:
        return _choice(inner)
    return "object" if origin is dict else _type_of_class(annotation)


def _type_of_class(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return _choice([each.value for each in annotation])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[{annotation.__name__}](#{anchor('fields', annotation.__name__)})"
    return _SCALARS[annotation]


def _choice(values: Iterable[str]) -> str:
    return ", ".join(f"`{each}`" for each in values)


def _read(docstring: str | None) -> Docstring:
    head, *fields = re.split(r"^:(param|raises) (\w+): ", docstring or "", flags=re.MULTILINE)
    found: dict[str, dict[str, str]] = {"param": {}, "raises": {}}
    for kind, name, meaning in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        found[kind][name] = _capitalized(_markdown(" ".join(meaning.split())))
    return Docstring(_markdown(head.strip()), found["param"], found["raises"])


def _markdown(text: str) -> str:
    """Return the text of a docstring as Markdown: code in single backticks."""
    text = re.sub(r":(?:class|data|func|mod):`~?([\w.]+)`", lambda match: f"`{match[1].rpartition('.')[2]}`", text)
    return re.sub(r"``(.+?)``", r"`\1`", text)


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *(tuple(cell.replace("|", r"\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def references(source: str) -> list[str]:
    """Return the targets of the page that docstrings or comments of a module refer to."""
    return re.findall(r":ref:`[^`<]*<(interface[\w-]*)>`", source)


if __name__ == "__main__":
    write()

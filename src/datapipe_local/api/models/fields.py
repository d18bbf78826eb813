"""Field types and configuration of request bodies."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from airflow_provider_datapipe.api.models.rules import JsonObject
from datapipe_local.services.checks import NAME
from datapipe_local.services.templates import LONGEST

#: Deeper than real settings, but within the limits of JSON parsing and serialization.
_DEEPEST = 32

#: Default of an optional field that is not nullable: None if the field is missing, but null is invalid.
OMISSIBLE: Any = Field(default_factory=lambda: None)


def _check_text(value: str) -> str:
    """
    Reject lone surrogates, which JSON can contain.

    :raises ValueError: if the text contains a lone surrogate.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("must not contain half a character (a lone surrogate)") from None
    return value


def _check_depth(value: dict[str, Any]) -> dict[str, Any]:
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return value
    raise ValueError(f"must not be nested more than {_DEEPEST} deep")


#: Text without lone surrogates.
Text = Annotated[str, AfterValidator(_check_text)]
#: Arbitrary JSON object with limited depth, such as settings.
SettingsObject = Annotated[JsonObject, AfterValidator(_check_depth)]


def _documented(schema: dict[str, Any]) -> None:
    """Add constraints to the schema that the service validates on its own, to return its own error messages."""
    constraints = {"name": {"pattern": f"^{NAME.pattern}$"}, "sql_template": {"minLength": 1, "maxLength": LONGEST}}
    for name, field in schema.get("properties", {}).items():
        field.update(constraints.get(name, {}))


#: Configuration of bodies with a name or SQL.
DOCUMENTED = ConfigDict(json_schema_extra=_documented)

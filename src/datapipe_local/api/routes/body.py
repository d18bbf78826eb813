"""Field types of request bodies."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from airflow_provider_datapipe.api.models.rules import JsonObject

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
        raise ValueError("must hold no half of a character") from None
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
AnyObject = Annotated[JsonObject, AfterValidator(_check_depth)]

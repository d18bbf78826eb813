"""What the bodies of requests are made of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from airflow_provider_datapipe.api.models.rules import JsonObject

#: Deeper than any settings are, and not as deep as what reading and writing them can bear.
_DEEPEST = 32

#: The default of a field that may be left out, and then is None. It can't be given as null, as the document says, too.
OMISSIBLE: Any = Field(default_factory=lambda: None)


def _check_text(value: str) -> str:
    """
    See to it that a text is one: JSON can spell half a character.

    :raises ValueError: it is none.
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


#: A text that can be kept.
Text = Annotated[str, AfterValidator(_check_text)]
#: An object of anything, such as settings.
AnyObject = Annotated[JsonObject, AfterValidator(_check_depth)]

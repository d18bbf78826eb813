"""The base of what is read from outside: fields that are not declared are refused."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Strict(BaseModel):
    """Refuses unknown fields, and values that only look like the right type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


#: A text that is never shown again.
Secret = Annotated[str, Field(min_length=1, repr=False, json_schema_extra={"format": "password", "writeOnly": True})]

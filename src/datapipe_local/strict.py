"""The base of what is read from outside: fields that are not declared are refused."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Refuses unknown fields, and values that only look like the right type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

"""Base class of models for input: undeclared fields are refused."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Strict(BaseModel):
    """Model that refuses unknown fields and does not convert types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


#: Text that is never shown.
Secret = Annotated[str, Field(min_length=1, repr=False, json_schema_extra={"format": "password", "writeOnly": True})]

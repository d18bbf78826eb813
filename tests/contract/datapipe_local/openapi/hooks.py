"""Checks of responses that schemathesis loads."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import schemathesis
from schemathesis import GenerationMode


@schemathesis.check
def what_the_document_allows_is_no_invalid_request(ctx: Any, response: Any, case: Any) -> None:
    """Check that a request which the OpenAPI document allows gets no ``invalid_request`` error."""
    if case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    if response.status_code == HTTPStatus.BAD_REQUEST:
        said = response.json()
        assert said["error_code"] != "invalid_request", said["message"]

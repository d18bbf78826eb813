"""Checks of responses that schemathesis loads."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import schemathesis
from schemathesis import GenerationMode


@schemathesis.check
def requests_by_the_document_are_valid(ctx: Any, response: Any, case: Any) -> None:
    """Check that a request which the OpenAPI document allows gets no ``invalid_request`` error."""
    if case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    if response.status_code == HTTPStatus.BAD_REQUEST:
        body = response.json()
        assert body["error_code"] != "invalid_request", body["message"]

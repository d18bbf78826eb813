"""Declaration of a route's responses for the OpenAPI document."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from datapipe_local.api.models.common import ErrorDto


def answering(answer: Any | None, *refusals: int, status: int = 200, conflict: Any = ErrorDto) -> dict[str, Any]:
    """
    Return keyword arguments for a route decorator.

    They always include 400 and 401.

    :param answer: Schema of a success (:mod:`datapipe_local.api.models`), None for an empty body.
    :param refusals: Additional error statuses: 404, 409, ...
    :param status: Status of a success.
    :param conflict: Schema of a 409.
    """
    responses: dict[int | str, dict[str, Any]] = {
        refusal: {
            "model": conflict if refusal == HTTPStatus.CONFLICT else ErrorDto,
            "description": HTTPStatus(refusal).phrase,
        }
        for refusal in sorted({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, *refusals})
    }
    if answer is not None:
        responses[status] = {"model": answer}
    return {"status_code": status, "responses": responses, "response_model": None}

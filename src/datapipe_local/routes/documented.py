"""How a route says what it answers, for the OpenAPI document."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from datapipe_local.dto.common import ErrorDto


def answering(answer: Any | None, *refusals: int, status: int = 200, conflict: Any = ErrorDto) -> dict[str, Any]:
    """
    Give the arguments of a route's decorator.

    400 and 401 need not be named: every route answers so where the request or the key is wrong.

    :param answer: What a success holds (:mod:`datapipe_local.dto`); None where there is nothing to say.
    :param refusals: The other statuses that it answers with: 404, 409, ...
    :param status: That of a success.
    :param conflict: What a 409 holds.
    """
    said: dict[int | str, dict[str, Any]] = {
        refusal: {
            "model": conflict if refusal == HTTPStatus.CONFLICT else ErrorDto,
            "description": HTTPStatus(refusal).phrase,
        }
        for refusal in sorted({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, *refusals})
    }
    if answer is not None:
        said[status] = {"model": answer}
    return {"status_code": status, "responses": said, "response_model": None}

"""Field types that validate request fields. Error messages do not quote values that may be secret."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

T = TypeVar("T")

_CRON_FIELDS = ("minute", "hour", "day of month", "month", "day of week")
_BESIDE_BRACKETS = re.compile(r"[^@]\[|\](?!:|$)")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def refuse_null(value: object) -> object:
    """
    Reject null.

    :raises ValueError: if the value is null.
    """
    if value is None:
        raise ValueError("must not be null")
    return value


def check_cron(expression: str) -> str:
    """
    Return a cron expression if it is valid.

    :param expression: minute, hour, day of month, month and day of week.
    :raises ValueError: if the expression is invalid; the message names the invalid field.
    """
    # Imported on first use: croniter takes longer to load than all the models.
    from croniter import croniter

    parts = expression.split()
    # croniter also accepts six fields and names such as @daily; the service does not.
    if len(parts) != len(_CRON_FIELDS):
        raise ValueError(f"{expression[:100]!r} is not a cron expression: set five fields, {', '.join(_CRON_FIELDS)}")
    for position, (name, part) in enumerate(zip(_CRON_FIELDS, parts, strict=True)):
        alone = ["*"] * len(parts)
        alone[position] = part
        if not croniter.is_valid(" ".join(alone)):
            raise ValueError(f"{part[:100]!r} is not a valid {name} of a cron expression")
    if not croniter.is_valid(expression):
        raise ValueError(f"{expression[:100]!r} is not a valid cron expression")
    return expression


def check_redirect_uri(uri: str) -> str:
    """
    Return a redirect URI if the service can redirect a browser to it.

    :raises ValueError: if it is not a URL, or if the interface forbids it.
    """
    try:
        url = urlsplit(uri)
        port = url.port
    except ValueError:
        raise ValueError("must be a URL") from None
    # Browsers treat a backslash as a slash. urlsplit ignores text next to a host in brackets.
    if not url.hostname or not uri.isprintable() or {" ", "\\"} & set(uri) or _BESIDE_BRACKETS.search(url.netloc):
        raise ValueError("must be a URL such as https://app.example.com/connected")
    if "@" in url.netloc:
        raise ValueError("must have no user name")
    is_local = url.hostname == "localhost"
    if url.scheme != "https" and not (is_local and url.scheme == "http"):
        raise ValueError("must begin with https://, except on localhost")
    if port is not None and not is_local:
        raise ValueError("must have no port, except on localhost")
    if url.query:
        raise ValueError("must have no query parameters")
    return uri


def parse_day(value: object) -> object:
    """
    Return a day if it has the format of the interface.

    :param value: text in the form YYYY-MM-DD, or a date.
    :raises ValueError: if the text has another format, or if the value has a time of day.
    """
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    if not isinstance(value, str) or not _DAY.fullmatch(value):
        raise ValueError("must be a day in the form YYYY-MM-DD")
    return value


def parse_object(value: object) -> object:
    """
    Return a copy of a value that can be serialized as JSON.

    :raises ValueError: if it can't be serialized.
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise ValueError("must contain only JSON values: text, numbers, true, false, null, lists and objects") from None


#: Optional field that must not be null; None if omitted.
Omissible = Annotated[T | None, BeforeValidator(refuse_null)]

#: Cron expression with five fields.
Cron = Annotated[str, AfterValidator(check_cron)]

#: Address to which the browser is redirected after a user authorized a connection.
RedirectUri = Annotated[str, AfterValidator(check_redirect_uri)]

#: Day in the form ``YYYY-MM-DD``.
Day = Annotated[dt.date, BeforeValidator(parse_day)]

#: JSON object.
JsonObject = Annotated[dict[str, Any], BeforeValidator(parse_object)]

#: Number of items on a page.
PageSize = Annotated[int, Field(ge=1, le=100)]

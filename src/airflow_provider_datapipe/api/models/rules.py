"""The rules for what is sent, as types of fields. Messages quote nothing that may be secret."""

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
    Refuse null where the interface gives it no meaning.

    :raises ValueError: it is null.
    """
    if value is None:
        raise ValueError("must have a value where it is given")
    return value


def check_cron(expression: str) -> str:
    """
    See to it that a cron expression is one.

    :param expression: minute, hour, day of month, month and day of week.
    :raises ValueError: it is not; the message names the part that is wrong.
    """
    # On first use: it takes longer to load than all the models.
    from croniter import croniter

    parts = expression.split()
    # croniter knows six, too, and names such as @daily; the service's schedules do not.
    if len(parts) != len(_CRON_FIELDS):
        raise ValueError(f"{expression[:100]!r} is no cron expression: give five fields, {', '.join(_CRON_FIELDS)}")
    for position, (name, part) in enumerate(zip(_CRON_FIELDS, parts, strict=True)):
        alone = ["*"] * len(parts)
        alone[position] = part
        if not croniter.is_valid(" ".join(alone)):
            raise ValueError(f"{part[:100]!r} is no {name} of a cron expression")
    if not croniter.is_valid(expression):
        raise ValueError(f"{expression[:100]!r} is no cron expression")
    return expression


def check_redirect_uri(uri: str) -> str:
    """
    See to it that the service can send a browser there.

    :raises ValueError: it is no URL, or one that the interface forbids.
    """
    try:
        url = urlsplit(uri)
        port = url.port
    except ValueError:
        raise ValueError("must be a URL") from None
    # Browsers read a backslash as a slash. urlsplit ignores text that is beside a host in brackets.
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
    Read a day in the one form that the interface has.

    :param value: the text, or a day already.
    :raises ValueError: it is of another form, or has a time of day.
    """
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    if not isinstance(value, str) or not _DAY.fullmatch(value):
        raise ValueError("must be a day in the form YYYY-MM-DD")
    return value


def parse_object(value: object) -> object:
    """
    Copy what can be sent as JSON.

    :raises ValueError: it can't.
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise ValueError("must hold only what JSON can: text, numbers, true, false, null, lists and objects") from None


#: May be left out, and must not be null; it is None when left out.
Omissible = Annotated[T | None, BeforeValidator(refuse_null)]

#: A cron expression of five fields.
Cron = Annotated[str, AfterValidator(check_cron)]

#: Where a browser goes after somebody authorized a connection.
RedirectUri = Annotated[str, AfterValidator(check_redirect_uri)]

#: A day, ``YYYY-MM-DD``.
Day = Annotated[dt.date, BeforeValidator(parse_day)]

#: Any JSON object.
JsonObject = Annotated[dict[str, Any], BeforeValidator(parse_object)]

#: How many items a page has.
PageSize = Annotated[int, Field(ge=1, le=100)]

"""Logging to the standard error: one event per line, with the time in UTC."""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
import time
from typing import TextIO

from datapipe_local.storage.clock import as_timestamp

#: Log formats; the first is the default.
FORMATS = ("text", "json")


def configure(form: str = "text") -> None:
    """
    Log to the standard error.

    :param form: One of :data:`FORMATS`.
    """
    handler = Handler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else _text())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # httpx logs each request to a destination, which the service logs itself.
    logging.getLogger("httpx").setLevel(logging.WARNING)


class Handler(logging.StreamHandler[TextIO]):
    """Stream handler that drops events that cannot be written, for example to a full disk."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in the base class
        """Report errors other than those of the stream."""
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)


class JsonFormatter(logging.Formatter):
    """Formatter that writes an event as a JSON object in one line, with the traceback as one string."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the event as JSON."""
        event = {
            "at": as_timestamp(dt.datetime.fromtimestamp(record.created, dt.UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "thread": record.threadName,
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event)


def _text() -> logging.Formatter:
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    return formatter

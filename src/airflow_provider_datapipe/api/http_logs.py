"""Log filter for the HTTP libraries, which log heads of answers: these may repeat the API key or a proxy's password."""

from __future__ import annotations

import logging
from weakref import WeakSet

from typing_extensions import override

from airflow_provider_datapipe.api.masking import Mask

# A filter of a logger does not see the records of its children.
_LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy", "urllib3.connectionpool")


class _MaskingFilter(logging.Filter):
    """Masks the secrets of all clients in use."""

    def __init__(self) -> None:
        super().__init__()
        self.masks: WeakSet[Mask] = WeakSet()

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        for mask in tuple(self.masks):
            text = mask.in_text(text)
        record.msg, record.args = text, ()
        return True


_FILTER = _MaskingFilter()


def mask_http_logs(mask: Mask) -> None:
    """
    Mask the secrets of a client in the log lines of the HTTP libraries.

    :param mask: mask of the client; it is used for as long as the client keeps it.
    """
    _FILTER.masks.add(mask)
    for name in _LOGGERS:
        # Adding a filter again has no effect.
        logging.getLogger(name).addFilter(_FILTER)

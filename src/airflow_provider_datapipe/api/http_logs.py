"""Log filter for the HTTP libraries, whose debug logs may contain the API key or a proxy's password."""

from __future__ import annotations

import logging
from weakref import WeakSet

from typing_extensions import override

from airflow_provider_datapipe.api.masking import Mask

# A logger's filter does not apply to records of child loggers.
_LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy", "urllib3.connectionpool")


class _MaskingFilter(logging.Filter):
    """Log filter that masks the secrets of all active clients."""

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
    Mask the secrets of a client in the logs of the HTTP libraries.

    :param mask: mask of the client. It applies as long as the client exists.
    """
    _FILTER.masks.add(mask)
    for name in _LOGGERS:
        # addFilter ignores a filter that is already present.
        logging.getLogger(name).addFilter(_FILTER)

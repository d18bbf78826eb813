"""Errors of the control plane."""

from __future__ import annotations

from datapipe_local.common.errors import ServiceError


class BusyError(ServiceError):
    """503: not possible at the moment."""

    status = 503
    default_code = "busy"

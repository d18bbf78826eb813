"""How a wait can end other than well, each end with a class of its own."""

from __future__ import annotations

from airflow_provider_datapipe.api.errors import DatapipeError


class RunError(DatapipeError):
    """Base of what can go wrong with a run."""


class RunFailedError(RunError):
    """The run ended, and failed."""


class RunPartialError(RunFailedError):
    """The run ended, and more rows failed than were allowed."""


class RunCanceledError(RunFailedError):
    """The run was canceled in the service."""


class RunUnknownError(RunFailedError):
    """The run ended with a status that this version does not know."""


class RunVanishedError(RunError):
    """The run was there, and the service no longer knows it."""


class RunTimeoutError(RunError):
    """The run did not end in time; it may still be going."""


class RunNotScheduledError(RunError):
    """The service took the request for a run, and did not schedule one in time."""


class LostContactError(RunError):
    """The service could not be asked for too long; the run may still be going."""


class RunConflictError(RunError):
    """Another run stands in the way of the one that was asked for."""

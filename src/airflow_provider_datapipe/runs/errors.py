"""Errors of runs."""

from __future__ import annotations

from airflow_provider_datapipe.api.errors import DatapipeError


class RunError(DatapipeError):
    """Base class of the errors of runs."""


class RunFailedError(RunError):
    """The run failed."""


class RunPartialError(RunFailedError):
    """The run ended, and more rows failed than allowed."""


class RunCanceledError(RunFailedError):
    """The run was canceled in the service."""


class RunUnknownError(RunFailedError):
    """The run ended with a status that this version of the provider does not know."""


class RunVanishedError(RunError):
    """The service no longer knows the run."""


class RunTimeoutError(RunError):
    """The run did not end before the deadline. It may still be active."""


class RunNotScheduledError(RunError):
    """The service accepted the request for a run, but did not schedule the run in time."""


class LostContactError(RunError):
    """The service could not be reached for too long. The run may still be active."""


class RunConflictError(RunError):
    """Another run, or the state of the resource, prevents the requested run."""

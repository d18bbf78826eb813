"""What can be wrong with a snapshot, or with what is asked of it."""

from __future__ import annotations


class PipelineError(Exception):
    """Base of these errors."""


class SnapshotError(PipelineError):
    """A snapshot can't be read, or is not what it has to be."""


class SelectionError(PipelineError):
    """A selection means nothing that is there, or nothing at all."""


class CycleError(PipelineError):
    """The references lead back to where they began."""

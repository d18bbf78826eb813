"""Errors in snapshots, and in operations on them."""

from __future__ import annotations


class PipelineError(Exception):
    """Base class of these errors."""


class SnapshotError(PipelineError):
    """A snapshot cannot be read, or is invalid."""


class SelectionError(PipelineError):
    """A selection is invalid, or matches nothing."""


class CycleError(PipelineError):
    """The references form a cycle."""

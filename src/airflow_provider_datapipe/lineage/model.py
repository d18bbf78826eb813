"""Lineage of a task, independent of the OpenLineage format."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from airflow_provider_datapipe.lineage.names import Name
from airflow_provider_datapipe.runs.models import RunResult


@dataclass(frozen=True, slots=True)
class Column:
    """
    Column of a dataset.

    :param name: name of the column.
    :param type: type as the service reports it; None if unknown.
    """

    name: str
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """
    Dataset that a task reads or writes.

    :param name: name of the dataset.
    :param columns: columns; empty if unknown.
    :param made_from: column lineage: for each column, the columns of other datasets that it is derived from.
    :param rows: number of rows written; None if unknown.
    :param integration: integration of the external system; None for the warehouse.
    """

    name: Name
    columns: tuple[Column, ...] = ()
    made_from: dict[str, list[tuple[Name, str]]] = field(default_factory=dict)
    rows: int | None = None
    integration: str | None = None


@dataclass(slots=True)
class Lineage:
    """
    Lineage of a task.

    :param inputs: datasets that are read.
    :param outputs: datasets that are written.
    :param sql: executed SQL; None if there is none.
    :param query_id: the service's ID of the query; None if the task runs no query.
    :param runs: results of the service runs.
    :param problem: reason why the lineage may be incomplete although no request failed.
    """

    inputs: list[Dataset] = field(default_factory=list)
    outputs: list[Dataset] = field(default_factory=list)
    sql: str | None = None
    query_id: str | None = None
    runs: list[RunResult] = field(default_factory=list)
    problem: str | None = None

    def add(self, inputs: Iterable[Dataset], outputs: Iterable[Dataset]) -> None:
        """Add inputs and outputs. A dataset that the task also writes is not an input."""
        self.outputs += _new(outputs, self.outputs)
        written = {each.name for each in self.outputs}
        self.inputs = [each for each in [*self.inputs, *_new(inputs, self.inputs)] if each.name not in written]


def _new(datasets: Iterable[Dataset], known: Iterable[Dataset]) -> list[Dataset]:
    names = {each.name for each in known}
    found: dict[Name, Dataset] = {}
    for each in datasets:
        if each.name not in names:
            found.setdefault(each.name, each)
    return list(found.values())

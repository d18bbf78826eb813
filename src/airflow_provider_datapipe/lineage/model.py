"""What is known of the lineage of a task, apart from how OpenLineage writes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from airflow_provider_datapipe.lineage.names import Name
from airflow_provider_datapipe.runs.reference import RunResult


@dataclass(frozen=True, slots=True)
class Column:
    """
    A column.

    :param name: its name.
    :param type: the service's word for its type; None where it says none.
    """

    name: str
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """
    Something that is read or written.

    :param name: what it is called.
    :param columns: its columns; empty where they are not known.
    :param made_from: for its columns, those of other datasets that they are made from.
    :param rows: how many rows were written; None where that is not known.
    :param integration: what kind of system it is in; None where that is the warehouse.
    """

    name: Name
    columns: tuple[Column, ...] = ()
    made_from: dict[str, list[tuple[Name, str]]] = field(default_factory=dict)
    rows: int | None = None
    integration: str | None = None


@dataclass(slots=True)
class Lineage:
    """
    What a task reads, writes and runs.

    :param inputs: what is read.
    :param outputs: what is written.
    :param sql: the SQL that is run; None if there is none.
    :param query_id: the service's id of the query; None if it is none.
    :param runs: the runs of the service.
    :param problem: why not all may be known, where nothing failed.
    """

    inputs: list[Dataset] = field(default_factory=list)
    outputs: list[Dataset] = field(default_factory=list)
    sql: str | None = None
    query_id: str | None = None
    runs: list[RunResult] = field(default_factory=list)
    problem: str | None = None

    def add(self, inputs: Iterable[Dataset], outputs: Iterable[Dataset]) -> None:
        """Add what a part of it reads and writes; what one part writes and another reads is no input of the whole."""
        self.outputs += _new(outputs, self.outputs)
        written = {each.name for each in self.outputs}
        self.inputs = [each for each in [*self.inputs, *_new(inputs, self.inputs)] if each.name not in written]


def _new(those: Iterable[Dataset], there: Iterable[Dataset]) -> list[Dataset]:
    names = {each.name for each in there}
    found: dict[Name, Dataset] = {}
    for each in those:
        if each.name not in names:
            found.setdefault(each.name, each)
    return list(found.values())

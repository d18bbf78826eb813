"""Task groups and DAGs that are generated from a snapshot. DAG files import this module: no large packages here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import DAG, TaskGroup

from airflow_provider_datapipe.arguments import checked
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator, TransformRematerializeOperator
from airflow_provider_datapipe.pipelines.errors import SelectionError
from airflow_provider_datapipe.pipelines.graph import Graph
from airflow_provider_datapipe.pipelines.naming import places
from airflow_provider_datapipe.pipelines.selection import Selection, matching_nodes, select
from airflow_provider_datapipe.pipelines.snapshot import REVERSE_ETL, STREAM, TRANSFORM, Node, read

if TYPE_CHECKING:
    from airflow_provider_datapipe.operators.base import DatapipeRunOperator

NodeArgs = Callable[[Node], Mapping[str, Any] | None] | Mapping[str, Mapping[str, Any]]
Transforms = Literal["rebuild", "publish"]


class DatapipeTaskGroup(TaskGroup):
    """
    Task group with a task for each stream, transform and reverse ETL sync of a snapshot, in the order of dependencies.

    Dependencies through resources that are not selected are kept.

    :param group_id: name of the group.
    :param snapshot: path of the file from ``datapipe snapshot``, absolute or relative to the folder of the DAG file.
    :param select: selected resources, such as ``"+orders folder:marts"``, or a list of such terms; None for all.
    :param exclude: excluded resources, in the same syntax; None for none.
    :param transforms: ``rebuild`` the published transforms without changes, and ignore drafts; or ``publish`` the
        newest SQL of all transforms.
    :param operator_args: arguments of all tasks, such as ``{"deferrable": True, "retries": 2}``.
    :param node_args: arguments of some tasks: a function that returns the arguments of a node, or a mapping of
        selections to arguments, such as ``{"kind:stream": {"pool": "loads"}}``. Later selections take precedence.
    :param group_by_folder: True for a nested group for each schema and folder. The task IDs are the same.
    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>` of the tasks; None for that of
        ``default_args``, or ``datapipe_default``.
    :param kwargs: arguments of any task group, such as ``default_args`` and ``tooltip``.
    :raises PipelineError: if the snapshot is invalid, or if a selection is invalid or matches no resource.
    """

    @checked
    def __init__(
        self,
        group_id: str,
        *,
        snapshot: str | Path,
        select: Selection | None = None,
        exclude: Selection | None = None,
        transforms: Literal["rebuild", "publish"] = "rebuild",
        operator_args: Mapping[str, Any] | None = None,
        node_args: NodeArgs | None = None,
        group_by_folder: bool = True,
        datapipe_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(group_id=group_id, **kwargs)
        #: Task IDs by node ID.
        self.task_ids = _fill(
            self,
            _beside(self.dag.fileloc, snapshot),
            chosen=select,
            excluded=exclude,
            transforms=transforms,
            operator_args=_with_connection(datapipe_conn_id, operator_args),
            node_args=node_args,
            group_by_folder=group_by_folder,
        )


class DatapipeDag(DAG):
    """
    DAG with the tasks of a :class:`DatapipeTaskGroup`, which describes the parameters in detail.

    :param dag_id: ID of the DAG.
    :param snapshot: path of the snapshot file.
    :param select: selected resources.
    :param exclude: excluded resources.
    :param transforms: ``rebuild`` or ``publish``.
    :param operator_args: arguments of all tasks.
    :param node_args: arguments of some tasks.
    :param group_by_folder: True for a group for each schema and folder.
    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>` of the tasks.
    :param kwargs: arguments of any DAG, such as ``schedule`` and ``default_args``.
    :raises PipelineError: if the snapshot is invalid, or if a selection is invalid or matches no resource.
    """

    @checked
    def __init__(
        self,
        dag_id: str,
        *,
        snapshot: str | Path,
        select: Selection | None = None,
        exclude: Selection | None = None,
        transforms: Literal["rebuild", "publish"] = "rebuild",
        operator_args: Mapping[str, Any] | None = None,
        node_args: NodeArgs | None = None,
        group_by_folder: bool = True,
        datapipe_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dag_id, **kwargs)
        # Airflow sets the file of its direct caller, which is this one. The check of arguments adds another frame.
        self.fileloc = sys._getframe(2).f_code.co_filename  # noqa: SLF001 - as Airflow itself does
        #: Task IDs by node ID.
        self.task_ids_of_nodes = _fill(
            self.task_group,
            _beside(self.fileloc, snapshot),
            chosen=select,
            excluded=exclude,
            transforms=transforms,
            operator_args=_with_connection(datapipe_conn_id, operator_args),
            node_args=node_args,
            group_by_folder=group_by_folder,
        )


def _with_connection(conn_id: str | None, operator_args: Mapping[str, Any] | None) -> Mapping[str, Any]:
    given = {} if conn_id is None else {"datapipe_conn_id": conn_id}
    return {**given, **(operator_args or {})}


def _beside(fileloc: str, path: str | Path) -> Path:
    # An absolute path stays as it is.
    return Path(fileloc).parent / path


def _fill(
    group: TaskGroup,
    path: Path,
    *,
    chosen: Selection | None,
    excluded: Selection | None,
    transforms: Transforms,
    operator_args: Mapping[str, Any],
    node_args: NodeArgs | None,
    group_by_folder: bool,
) -> dict[str, str]:
    """Add the tasks to a group, and return their IDs by node ID."""
    if transforms not in ("rebuild", "publish"):
        raise ValueError(f"transforms must be 'rebuild' or 'publish', not {transforms!r}")
    graph = Graph(read(path), sql="newest" if transforms == "publish" else "published")
    runnable = [key for key in select(graph, chosen, excluded) if _can_run(graph.nodes[key], transforms)]
    if not runnable:
        raise SelectionError(
            f"{path}: all selected transforms are drafts, which cannot be rebuilt: publish them and write the "
            "snapshot again, or set transforms='publish'."
        )
    parents = graph.among(set(runnable))
    of_node = _arguments(graph, node_args)
    groups: dict[tuple[str, ...], TaskGroup] = {(): group}
    tasks: dict[str, DatapipeRunOperator] = {}
    where = places(graph.nodes.values())
    for key in sorted(runnable, key=lambda key: where[key].path):
        node, place = graph.nodes[key], where[key]
        documentation = {"doc_md": node.documentation} if node.documentation else {}
        arguments: dict[str, Any] = {**documentation, **operator_args, **of_node(node)}
        for taken in ("task_id", "task_group", "dag"):
            if taken in arguments:
                raise ValueError(
                    f"operator_args and node_args must not contain {taken}, which the task group sets itself"
                )
        task_id, inside = (place.label, place.groups) if group_by_folder else (place.path, ())
        tasks[key] = _operator(
            node, transforms, task_id=task_id, task_group=_group(groups, inside), dag=group.dag, **arguments
        )
    for key, upstream in parents.items():
        if upstream:
            tasks[key].set_upstream([tasks[parent] for parent in upstream])
    return {key: task.task_id for key, task in tasks.items()}


def _can_run(node: Node, transforms: Transforms) -> bool:
    return node.kind != TRANSFORM or transforms == "publish" or node.status == "published"


def _group(groups: dict[tuple[str, ...], TaskGroup], path: tuple[str, ...]) -> TaskGroup:
    if path not in groups:
        parent = _group(groups, path[:-1])
        groups[path] = TaskGroup(path[-1], parent_group=parent, dag=parent.dag)
    return groups[path]


def _operator(node: Node, transforms: Transforms, /, **arguments: Any) -> DatapipeRunOperator:
    if node.kind == STREAM:
        return EltStreamRunOperator(stream_id=node.resource_id, **arguments)
    if node.kind == REVERSE_ETL:
        return ReverseEtlRunOperator(reverse_etl_sync_id=node.resource_id, **arguments)
    operator = TransformPublishOperator if transforms == "publish" else TransformRematerializeOperator
    return operator(transform_id=node.resource_id, **arguments)


def _arguments(graph: Graph, node_args: NodeArgs | None) -> Callable[[Node], Mapping[str, Any]]:
    """Return the function that returns the arguments of a node."""
    if node_args is None:
        return lambda _: {}
    if callable(node_args):
        return lambda node: node_args(node) or {}
    selected: list[tuple[Collection[str], Mapping[str, Any]]] = [
        (matching_nodes(graph, [selection], "node_args"), arguments) for selection, arguments in node_args.items()
    ]
    return lambda node: {
        name: value for keys, arguments in selected if node.id in keys for name, value in arguments.items()
    }

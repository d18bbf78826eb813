"""
Node selection language.

.. code-block:: text

    selection     terms, separated by spaces or in a list: the union of their nodes
    term          parts, separated by commas: the intersection of their nodes
    part          NODES, +NODES (with ancestors), NODES+ (with descendants), 1+NODES, NODES+2 (limited distance)
    NODES         a name, folder/name or schema.name
                  folder:marts  kind:stream  sync:shop  orchestration:nightly  status:draft  materialization:table
                  id:transform:abc

``*`` matches any text, ``?`` any single character.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from airflow_provider_datapipe.pipelines.errors import SelectionError
from airflow_provider_datapipe.pipelines.graph import Graph
from airflow_provider_datapipe.pipelines.snapshot import ORCHESTRATION, RUNNABLE, SYNC, TRANSFORM, Node, Snapshot

Selection = str | Sequence[str]

_PART = re.compile(r"(?:(?P<before>\d*)(?P<reads>\+))?(?P<what>.*?)(?:(?P<read>\+)(?P<after>\d*))?", re.DOTALL)
_LISTED = 5


def select(graph: Graph, chosen: Selection | None = None, excluded: Selection | None = None) -> list[str]:
    """
    Return the IDs of the selected nodes, sorted.

    :param graph: all nodes.
    :param chosen: a selection; None for all nodes.
    :param excluded: a selection of nodes to exclude; None for none.
    :raises SelectionError: if a name or a method is unknown, or no node is selected.
    """
    selected = set(graph.nodes) if chosen is None else matching_nodes(graph, chosen, "select")
    excluded_nodes = set() if excluded is None else matching_nodes(graph, excluded, "exclude")
    if not selected - excluded_nodes:
        reason = "there are no runnable nodes" if chosen is None else f"select={chosen!r} matches no nodes"
        if selected:
            reason = f"exclude={excluded!r} excludes all selected nodes"
        raise SelectionError(f"{graph.snapshot.origin}: {reason}.")
    return sorted(selected - excluded_nodes)


def matching_nodes(graph: Graph, selection: Selection, field: str) -> set[str]:
    """
    Return the IDs of the nodes that a selection matches, which can be none.

    :param graph: all nodes.
    :param selection: the selection.
    :param field: its name in messages.
    :raises SelectionError: if a name or a method is unknown.
    """
    terms = selection.split() if isinstance(selection, str) else selection
    matching: set[str] = set()
    for term in terms:
        if not isinstance(term, str):
            raise SelectionError(f"{field}={selection!r}: {term!r} is not text.")
        parts = [_part(graph, part.strip(), f"{field}={selection!r}") for part in term.split(",")]
        matching |= set.intersection(*parts)
    return matching


def _part(graph: Graph, text: str, where: str) -> set[str]:
    found = _PART.fullmatch(text)
    if found is None or not found["what"]:
        raise SelectionError(
            f"{where}: {text!r} is not a valid selection: use a name, or a method such as folder:marts."
        )
    begin = _matching(graph, found["what"], where)
    matching = set(begin)
    if found["reads"]:
        matching |= graph.ancestors(begin, _steps(found["before"]))
    if found["read"]:
        matching |= graph.descendants(begin, _steps(found["after"]))
    return matching


def _steps(digits: str) -> int | None:
    return int(digits) if digits else None


def _matching(graph: Graph, what: str, where: str) -> set[str]:
    method, colon, pattern = what.partition(":")
    if not colon:
        method, pattern = "name", what
    names = _METHODS.get(method)
    if names is None:
        near = difflib.get_close_matches(method, _METHODS, n=1)
        hint = f"Did you mean {near[0]}:?" if near else f"Use {', '.join(f'{each}:' for each in _METHODS)}."
        raise SelectionError(f"{where}: {method}: is not a selection method. {hint}")
    if not pattern:
        raise SelectionError(f"{where}: {what!r} has no value after the colon.")
    # Brackets are ordinary characters, unlike in patterns of a shell.
    escaped = pattern.replace("[", "[[]")
    matching = {
        key
        for key, node in graph.nodes.items()
        if any(fnmatchcase(name, escaped) for name in names(graph.snapshot, node))
    }
    if not matching and not {"*", "?"} & set(pattern):
        _refuse_unknown(graph, method, pattern, where)
    return matching


def _refuse_unknown(graph: Graph, method: str, wanted: str, where: str) -> None:
    if wanted in _ALLOWED.get(method, ()):
        return
    known = {name for name in _known(graph, method) if name}
    by_folded = {name.casefold(): name for name in sorted(known)}
    near = [by_folded[each] for each in difflib.get_close_matches(wanted.casefold(), by_folded, n=_LISTED, cutoff=0.5)]
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    else:
        hint = f"Known values: {', '.join(sorted(known)[:_LISTED])}." if known else "There are no values."
    what = "there is no node" if method == "name" else f"there is no {method}"
    raise SelectionError(f"{where}: {what} {wanted!r} in {graph.snapshot.origin}. {hint}")


def _known(graph: Graph, method: str) -> Iterator[str]:
    yield from _ALLOWED.get(method, ())
    for node in graph.nodes.values():
        yield from _METHODS[method](graph.snapshot, node)


def _names(_: Snapshot, node: Node) -> Iterable[str]:
    return (node.name, node.title)


def _folders(_: Snapshot, node: Node) -> Iterable[str]:
    """Return the path of a transform and of its folders, so that ``marts`` and ``marts/*`` match it."""
    if node.kind != TRANSFORM:
        return ()
    parts = [part for part in node.folder.split("/") if part]
    return ("/".join([*parts, node.name]), *("/".join(parts[:count]) for count in range(1, len(parts) + 1)))


def _related(field: str, kind: str) -> Callable[[Snapshot, Node], Iterable[str]]:
    def names(snapshot: Snapshot, node: Node) -> Iterable[str]:
        related = snapshot.nodes.get(getattr(node, field))
        if related is None and node.sync:
            # Streams inherit the orchestration of their sync.
            related = snapshot.nodes.get(getattr(snapshot.nodes[node.sync], field))
        return () if related is None or related.kind != kind else (related.name, related.resource_id)

    return names


#: Selection methods: a function for each that returns the values of a node to match.
_METHODS: dict[str, Callable[[Snapshot, Node], Iterable[str]]] = {
    "name": _names,
    "folder": _folders,
    "kind": lambda _, node: (node.kind,),
    "sync": _related("sync", SYNC),
    "orchestration": _related("orchestration", ORCHESTRATION),
    "status": lambda _, node: (node.status,),
    "materialization": lambda _, node: (node.materialization,),
    "id": lambda _, node: (node.id,),
}
#: Values that are valid even if no node has them.
_ALLOWED = {
    "kind": RUNNABLE,
    "status": ("draft", "published", "enabled", "disabled"),
    "materialization": ("view", "table"),
}

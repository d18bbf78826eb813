"""
Node selection language.

.. code-block:: text

    selection     terms, separated by spaces or in a list: the union of their nodes
    term          parts, separated by commas: the intersection of their nodes
    part          WHAT, +WHAT (with ancestors), WHAT+ (with descendants), 1+WHAT, WHAT+2 (limited distance)
    WHAT          a name, folder/name or schema.name
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
    meant = set(graph.nodes) if chosen is None else meant_by(graph, chosen, "select")
    left_out = set() if excluded is None else meant_by(graph, excluded, "exclude")
    if not meant - left_out:
        how = "Nothing is there that can be run" if chosen is None else f"select={chosen!r} means nothing"
        if meant:
            how = f"exclude={excluded!r} leaves nothing of what is selected"
        raise SelectionError(f"{graph.snapshot.origin}: {how}.")
    return sorted(meant - left_out)


def meant_by(graph: Graph, selection: Selection, field: str) -> set[str]:
    """
    Return the IDs of the nodes that a selection matches, which can be none.

    :param graph: all nodes.
    :param selection: the selection.
    :param field: its name in messages.
    :raises SelectionError: if a name or a method is unknown.
    """
    terms = selection.split() if isinstance(selection, str) else selection
    meant: set[str] = set()
    for term in terms:
        if not isinstance(term, str):
            raise SelectionError(f"{field}={selection!r}: {term!r} is no text.")
        parts = [_part(graph, part.strip(), f"{field}={selection!r}") for part in term.split(",")]
        meant |= set.intersection(*parts)
    return meant


def _part(graph: Graph, text: str, where: str) -> set[str]:
    found = _PART.fullmatch(text)
    if found is None or not found["what"]:
        raise SelectionError(f"{where}: {text!r} means nothing: give a name, or a word such as folder:marts.")
    begin = _meant(graph, found["what"], where)
    meant = set(begin)
    if found["reads"]:
        meant |= graph.ancestors(begin, _steps(found["before"]))
    if found["read"]:
        meant |= graph.descendants(begin, _steps(found["after"]))
    return meant


def _steps(digits: str) -> int | None:
    return int(digits) if digits else None


def _meant(graph: Graph, what: str, where: str) -> set[str]:
    word, colon, pattern = what.partition(":")
    if not colon:
        word, pattern = "name", what
    names = _WORDS.get(word)
    if names is None:
        near = difflib.get_close_matches(word, _WORDS, n=1)
        hint = f"Was {near[0]}: meant?" if near else f"There are {', '.join(f'{each}:' for each in _WORDS)}."
        raise SelectionError(f"{where}: {word}: is no word of a selection. {hint}")
    if not pattern:
        raise SelectionError(f"{where}: {what!r} means nothing: something has to follow the colon.")
    meant = {
        key
        for key, node in graph.nodes.items()
        if any(fnmatchcase(name, pattern) for name in names(graph.snapshot, node))
    }
    if not meant and not _is_pattern(pattern):
        _refuse_unknown(graph, word, pattern, where)
    return meant


def _is_pattern(text: str) -> bool:
    # Only these characters have a special meaning.
    return any(mark in text for mark in "*?[")


def _refuse_unknown(graph: Graph, word: str, wanted: str, where: str) -> None:
    if wanted in _ALLOWED.get(word, ()):
        return
    known = {name for name in _known(graph, word) if name}
    by_folded = {name.casefold(): name for name in sorted(known)}
    near = [by_folded[each] for each in difflib.get_close_matches(wanted.casefold(), by_folded, n=_LISTED, cutoff=0.5)]
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    else:
        hint = f"There is {', '.join(sorted(known)[:_LISTED])}." if known else "There are none at all."
    what = "nothing is called" if word == "name" else f"there is no {word}"
    raise SelectionError(f"{where}: {what} {wanted!r} in {graph.snapshot.origin}. {hint}")


def _known(graph: Graph, word: str) -> Iterator[str]:
    yield from _ALLOWED.get(word, ())
    for node in graph.nodes.values():
        yield from _WORDS[word](graph.snapshot, node)


def _names(_: Snapshot, node: Node) -> Iterable[str]:
    return (node.name, node.title)


def _folders(_: Snapshot, node: Node) -> Iterable[str]:
    """Return the path of a transform and of its folders, so that ``marts`` and ``marts/*`` match it."""
    if node.kind != TRANSFORM:
        return ()
    parts = [part for part in node.folder.split("/") if part]
    return ("/".join([*parts, node.name]), *("/".join(parts[:count]) for count in range(1, len(parts) + 1)))


def _led_to(field: str, kind: str) -> Callable[[Snapshot, Node], Iterable[str]]:
    def names(snapshot: Snapshot, node: Node) -> Iterable[str]:
        holder = snapshot.nodes.get(getattr(node, field))
        if holder is None and node.sync:
            # Streams inherit the orchestration of their sync.
            holder = snapshot.nodes.get(getattr(snapshot.nodes[node.sync], field))
        return () if holder is None or holder.kind != kind else (holder.name, holder.resource_id)

    return names


#: Selection methods: a function for each that returns the values of a node to match.
_WORDS: dict[str, Callable[[Snapshot, Node], Iterable[str]]] = {
    "name": _names,
    "folder": _folders,
    "kind": lambda _, node: (node.kind,),
    "sync": _led_to("sync", SYNC),
    "orchestration": _led_to("orchestration", ORCHESTRATION),
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

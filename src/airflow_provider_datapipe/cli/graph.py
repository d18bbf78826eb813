"""``datapipe graph``: show the nodes of a snapshot and their dependencies."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from airflow_provider_datapipe.cli.command import DONE, Command, Option


def run(options: argparse.Namespace) -> int:
    """
    Show the graph of a snapshot.

    :param options: parsed options.
    :return: 0.
    """
    from airflow_provider_datapipe.pipelines.graph import Graph
    from airflow_provider_datapipe.pipelines.plan import printable
    from airflow_provider_datapipe.pipelines.selection import select
    from airflow_provider_datapipe.pipelines.snapshot import RUNNABLE, read

    graph = Graph(read(Path(options.snapshot)), sql="newest" if options.newest else "published")
    chosen = select(graph, _terms(options.select), _terms(options.exclude))
    parents = graph.among(chosen)
    nodes = [graph.nodes[key] for key in chosen]
    nodes.sort(key=lambda node: (RUNNABLE.index(node.kind), node.title, node.id))
    if options.mermaid:
        from airflow_provider_datapipe.pipelines.mermaid import diagram

        sys.stdout.write(diagram(nodes, parents))
        return DONE
    widest = max(len(node.kind) for node in nodes)
    for node in nodes:
        read_from = ", ".join(sorted(graph.nodes[key].title for key in parents[node.id]))
        print(printable(f"{node.kind:<{widest}}  {node.title}" + (f"  <- {read_from}" if read_from else "")))
    return DONE


def _terms(given: list[str] | None) -> list[str] | None:
    """Split selections at white space and merge those of repeated options; return None for no option."""
    return None if given is None else [term for each in given for term in each.split()]


COMMAND = Command(
    "graph",
    "show the runnable nodes of a snapshot and their dependencies",
    (
        Option.of(
            "--snapshot", metavar="FILE", default="pipelines.json", help="the snapshot (default: pipelines.json)"
        ),
        Option.of(
            "--select", metavar="SELECTION", action="append", help="nodes to show, such as '+orders folder:marts'"
        ),
        Option.of("--exclude", metavar="SELECTION", action="append", help="nodes to exclude"),
        Option.of(
            "--newest", action="store_true", help="use the newest SQL of all transforms instead of the published SQL"
        ),
        Option.of("--mermaid", action="store_true", help="print a Mermaid flowchart, for Markdown"),
    ),
    run,
)

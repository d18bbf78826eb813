"""
Where names in docstrings lead.

Docstrings use short names, and signatures names that are imported for types only. What is documented here is linked.
What is somebody else's is left as it is written, for nothing is loaded from the network; but it has to be there. All
else is a warning, which ends ``make docs``.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import pkgutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from docutils import nodes
from sphinx.util.nodes import make_refnode

if TYPE_CHECKING:
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

OURS = ("airflow_provider_datapipe", "datapipe_local")

#: What of ours is named in signatures and docstrings, and not documented; it has to be there, too.
NOT_DOCUMENTED = {
    "airflow_provider_datapipe.api.canonical": "the page on webhooks has its rules",
    "airflow_provider_datapipe.api.models": "answers, which have the fields of the interface",
    "airflow_provider_datapipe.api.retry": "what the client is made of",
    "airflow_provider_datapipe.arguments": "forms of arguments, such as durations; the page on running has them",
    "airflow_provider_datapipe.resources": "what operators are made of",
    "airflow_provider_datapipe.hooks.connection": "what hooks are made of",
    "airflow_provider_datapipe.hooks.webhook_connection": "what hooks are made of",
    "airflow_provider_datapipe.notifications.post": "what notifiers are made of",
    "airflow_provider_datapipe.pipelines.selection": "the page on task groups has what can be selected",
    "airflow_provider_datapipe.runs": "what operators and triggers are made of",
    "airflow_provider_datapipe.task_groups.NodeArgs": "a short name for a type, which is told where it is used",
    "airflow_provider_datapipe.task_groups.Transforms": "a short name for a type, which is told where it is used",
    "airflow_provider_datapipe.webhook": "what the operator and the hook of webhooks are made of",
}


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.Element) -> nodes.Node | None:
    """
    Find what Sphinx has not found.

    :param app: Sphinx.
    :param env: what it knows.
    :param node: the reference.
    :param shown: what is shown of it.
    :returns: the link, the text without one, or None if there is nothing of that name.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].lstrip("~.")
    name = full_name(target, node.get("py:module"))
    python: Any = env.domains.python_domain
    for wanted in (name, target):
        # As searched: the end of a full name will do, if only one thing is called so.
        matches = python.find_obj(env, None, None, wanted, None, 1)
        if len({(entry.docname, entry.node_id) for _, entry in matches}) == 1:
            found, entry = matches[0]
            return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, shown, found)
    # Sphinx writes the whole name where it evaluates an annotation.
    return shown if any(is_there(each) and may_stay_text(each) for each in (name, target)) else None


def full_name(name: str, module: str | None) -> str:
    """
    Say what a name of a module means.

    :param name: the name, as it is written there.
    :param module: the module; what is inherited is written in the words of another one.
    """
    first, _, rest = name.partition(".")
    meaning = _imports(module).get(first) if module else None
    if meaning is None:
        meanings = {names[first] for names in map(_imports, _modules()) if first in names}
        meaning = meanings.pop() if len(meanings) == 1 else None
    return ".".join(filter(None, (meaning, rest))) if meaning else name


def may_stay_text(name: str) -> bool:
    """Tell whether a thing need not be documented here."""
    if name.partition(".")[0] not in OURS:
        return True
    return _is_type_variable(name) or any(f"{name}.".startswith(f"{known}.") for known in NOT_DOCUMENTED)


def is_there(name: str) -> bool:
    """Tell whether a module, or something in one, has that name."""
    return hasattr(builtins, name) or _thing(name) is not None


def _thing(name: str) -> Any:
    head, *rest = name.split(".")
    try:
        found: Any = importlib.import_module(head)
    except ModuleNotFoundError:
        return None
    for part in rest:
        head = f"{head}.{part}"
        if not hasattr(found, part):
            try:
                importlib.import_module(head)
            except ModuleNotFoundError:
                return None
        found = getattr(found, part)
    return found


def _is_type_variable(name: str) -> bool:
    return isinstance(_thing(name), TypeVar)


@cache
def _modules() -> list[str]:
    path = importlib.import_module(OURS[0]).__path__
    return [found.name for found in pkgutil.walk_packages(path, f"{OURS[0]}.") if not found.name.endswith("__main__")]


@cache
def _imports(module: str) -> dict[str, str]:
    """Give what the names of a module are imported as, and those that are its own."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return {}
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {
                alias.asname or alias.name: alias.name for alias in node.names if alias.asname or "." not in alias.name
            }
    own = (node for node in tree.body if isinstance(node, ast.ClassDef | ast.Assign | ast.AnnAssign))
    for node in own:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        for target in targets:
            name = getattr(target, "name", None) or getattr(getattr(target, "target", target), "id", None)
            if name:
                found.setdefault(name, f"{module}.{name}")
    return found

"""
Links of names in docstrings and signatures.

Docstrings contain short names, and signatures contain names that are imported only for types. Documented names of this
project become links. Names of other packages stay text, because the build loads nothing from the network, but they must
exist. Each other name causes a warning, which fails ``make docs``.
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

#: Modules and names of this project that stay text, with the reason. They must exist.
NOT_DOCUMENTED = {
    "airflow_provider_datapipe.api.canonical": "the page on webhooks describes its rules",
    "airflow_provider_datapipe.api.models": "responses with the fields of the interface",
    "airflow_provider_datapipe.api.retry": "internal modules of the client",
    "airflow_provider_datapipe.arguments": "types of arguments, such as durations, which the page on running describes",
    "airflow_provider_datapipe.resources": "internal modules of operators",
    "airflow_provider_datapipe.hooks.connection": "internal module of hooks",
    "airflow_provider_datapipe.hooks.webhook_connection": "internal module of hooks",
    "airflow_provider_datapipe.notifications.post": "internal module of notifiers",
    "airflow_provider_datapipe.pipelines.selection": "the page on task groups describes selections",
    "airflow_provider_datapipe.runs": "internal modules of operators and triggers",
    "airflow_provider_datapipe.task_groups.NodeArgs": "alias of a type that the parameters describe",
    "airflow_provider_datapipe.task_groups.Transforms": "alias of a type that the parameters describe",
    "airflow_provider_datapipe.webhook": "internal modules of the webhook operator and hook",
}


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.Element) -> nodes.Node | None:
    """
    Resolve a reference that Sphinx has not resolved. Handler of the event ``missing-reference``.

    :param app: The Sphinx application.
    :param env: The build environment.
    :param node: The reference.
    :param shown: The displayed text.
    :returns: The link, the text without a link, or None if the name does not exist.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].lstrip("~.")
    name = full_name(target, node.get("py:module"))
    python: Any = env.domains.python_domain
    for wanted in (name, target):
        # Mode 1 also finds objects by the end of their full name. Only a unique match counts.
        matches = python.find_obj(env, None, None, wanted, None, 1)
        if len({(entry.docname, entry.node_id) for _, entry in matches}) == 1:
            found, entry = matches[0]
            return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, shown, found)
    # Sphinx writes the full name if it evaluates an annotation.
    return shown if any(is_there(each) and may_stay_text(each) for each in (name, target)) else None


def full_name(name: str, module: str | None) -> str:
    """
    Return the full name of a name in a module.

    :param name: The name as written in the module.
    :param module: The module. All modules are searched as well, because inherited docstrings use names of others.
    """
    first, _, rest = name.partition(".")
    meaning = _imports(module).get(first) if module else None
    if meaning is None:
        meanings = {names[first] for names in map(_imports, _modules()) if first in names}
        meaning = meanings.pop() if len(meanings) == 1 else None
    return ".".join(filter(None, (meaning, rest))) if meaning else name


def may_stay_text(name: str) -> bool:
    """Return True if a name may stay text without a link."""
    if name.partition(".")[0] not in OURS:
        return True
    return _is_type_variable(name) or any(f"{name}.".startswith(f"{known}.") for known in NOT_DOCUMENTED)


def is_there(name: str) -> bool:
    """Return True if a module, or a member of a module, has this name."""
    return hasattr(builtins, name) or _load(name) is not None


def _load(name: str) -> Any:
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
    return isinstance(_load(name), TypeVar)


@cache
def _modules() -> list[str]:
    path = importlib.import_module(OURS[0]).__path__
    return [found.name for found in pkgutil.walk_packages(path, f"{OURS[0]}.") if not found.name.endswith("__main__")]


@cache
def _imports(module: str) -> dict[str, str]:
    """Return the full names of all names that a module imports or defines."""
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

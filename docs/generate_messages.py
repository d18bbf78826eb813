"""Writes the classes of errors, each with the messages that the code has for it."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

import airflow_provider_datapipe
import datapipe_local

PACKAGE = "airflow_provider_datapipe"
#: Classes of the local service, and what their messages are.
OF_LOCAL_SERVICE = {
    "SetupError": "What a command refuses: it ends with status 1, and says this after ``datapipe-local:``.",
    "RunError": "Why a run has failed, as its error says; so ``RunFailedError`` does.",
    "SourceError": "The same, where a source can't be read at all.",
    "WarehouseError": "What DuckDB, or the rules for SQL, refuse: a part of the error of a run, or of an answer.",
    "BadRequestError": "Answers with status 400.",
    "ConflictError": "Answers with status 409.",
}
#: What is caught before anybody sees it: what it means is told by another error.
INTERNAL = {
    "ActiveRunConflict": "the task waits for another run",
    "DuplicateKeyError": "becomes a NotCanonicalError",
    "LineageLimitError": "lineage sends no further requests",
    "JsonSyntaxError": "becomes a NotCanonicalError",
    "NotPostedError": "a notifier logs it and continues",
    "NotUtf8Error": "becomes a WorkspaceError or a TransformFileError",
    "StrictJsonError": "base class of the errors of JSON",
    "TooLarge": "becomes a ProtocolError",
    "Unreadable": "becomes a ProtocolError",
    "UnconfirmedError": "becomes an IngestError",
}
#: What a message is filled in with.
GAP = "…"


@cache
def errors() -> dict[str, type[Exception]]:
    """Give the classes of errors that users meet, those that others are made from first."""
    found = {}
    for name in _modules():
        for value in vars(importlib.import_module(name)).values():
            is_error = inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == name
            if is_error and value.__name__ not in INTERNAL and not value.__name__.startswith("_"):
                found[value.__name__] = value
    return dict(sorted(found.items(), key=lambda item: (len(item[1].__mro__), item[1].__module__, item[0])))


def messages() -> Mapping[str, list[str]]:
    """Give the messages that stand in the provider's code, by the name of the class that is raised with them."""
    return _messages(airflow_provider_datapipe, frozenset({*errors(), "ValueError"}))


def messages_of_local_service() -> Mapping[str, list[str]]:
    """Give those of the local service."""
    return _messages(datapipe_local, frozenset(OF_LOCAL_SERVICE))


@cache
def _messages(package: ModuleType, classes: frozenset[str]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for module in _modules(package):
        source = importlib.util.find_spec(module)
        assert source is not None  # noqa: S101 - it was imported
        assert source.origin is not None  # noqa: S101 - it is a file
        tree = ast.parse(Path(source.origin).read_text(encoding="utf-8"))
        constants = dict(_constants(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                if name in classes and node.args:
                    text = _text(node.args[0], constants)
                    if text.strip(f"{GAP} .:,;") and text not in found[name]:
                        found[name].append(text)
    return found


def page() -> str:
    """Give the text of the page."""
    parts = [
        "Exceptions",
        "==========",
        "",
        "What tasks and commands raise, and what each class says; :doc:`../errors` has the cause and the cure of each.",
        f"In the messages, ``{GAP}`` is filled in. What the service itself answers is quoted as it is.",
        "",
        f".. automodule:: {PACKAGE}.api.errors",
        "   :no-members:",
        "",
    ]
    for name, kind in errors().items():
        parts += [f".. autoexception:: {kind.__module__}.{name}", "   :show-inheritance:", ""]
        # A message stands in its class, and in nothing else of it.
        parts += [f"   | ``{text}``" for text in map(_literal, messages().get(name, []))]
        parts.append("")
    parts += [
        "ValueError",
        "----------",
        "",
        "An argument that makes no sense, when the DAG is read or when its templates are rendered. Nothing was sent.",
        "",
        *(f"| ``{text}``" for text in map(_literal, messages()["ValueError"])),
        "",
        "The local service",
        "-----------------",
        "",
        "These are no classes for DAGs: what stands here is met as text.",
        "",
    ]
    for name, meaning in OF_LOCAL_SERVICE.items():
        parts += [name, "~" * len(name), "", meaning, ""]
        parts += [*(f"| ``{text}``" for text in map(_literal, messages_of_local_service()[name])), ""]
    return "\n".join(parts)


def _modules(package: ModuleType = airflow_provider_datapipe) -> Iterator[str]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        # A program runs when it is imported.
        if not found.name.endswith("__main__"):
            yield found.name


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value.value


def _text(node: ast.expr, constants: Mapping[str, str]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(value, constants) for value in values)
        case ast.FormattedValue(value=value):
            return _text(value, constants)
        case ast.Name(id=name) if name in constants:
            return constants[name]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left, constants) + _text(right, constants)
    return GAP


def _literal(text: str) -> str:
    # A literal is one line, and has no backquotes of its own.
    return " ".join(text.split()).replace("`", "'")

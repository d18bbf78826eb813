"""Writes the reference from the modules that there are, whenever the docs are built: a page for each package."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import generate_cli
import generate_messages

FOLDER = Path(__file__).with_name("reference")
PACKAGE = "airflow_provider_datapipe"


class Page(NamedTuple):
    """
    A page of the reference.

    :param title: its heading.
    :param modules: what it is about, below the package: packages stand for all their modules. What is not there is left
        out, so that a page can be about what only newer versions have.
    :param introduction: what stands first.
    """

    title: str
    modules: tuple[str, ...]
    introduction: str


PAGES = {
    "operators": Page(
        "Operators",
        ("operators",),
        "Arguments that are templates say so. What tasks return is among the :doc:`results`.",
    ),
    "sensors": Page("Sensors", ("sensors",), "They start nothing: :doc:`../sensors` tells which to take."),
    "triggers": Page(
        "Triggers",
        ("triggers",),
        "Those of ``triggers.events`` are for an ``AssetWatcher`` (:doc:`../events`). The others are what operators "
        "and sensors defer to: DAGs do not name them.",
    ),
    "hooks": Page("Hooks", ("hooks",), "For tasks of one's own. :doc:`../interface` has all requests of a hook."),
    "decorators": Page("Decorators", ("decorators",), "For the functions of TaskFlow DAGs."),
    "notifications": Page("Notifications", ("notifications",), "For callbacks such as ``on_failure_callback``."),
    "assets": Page("Assets", ("assets",), "Names for what the service holds."),
    "task_groups": Page(
        "Task groups",
        ("task_groups", "pipelines.snapshot"),
        "DAGs that are generated from what a service holds: :doc:`../task_groups`.",
    ),
    "links": Page("Links", ("links",), "From a task to the service's page of what it works on."),
    "retries": Page("Retries", ("retries",), "Which failures are worth another try: :doc:`../runs`."),
    "results": Page(
        "Results",
        (
            "runs.models",
            "runs.elt_sync",
            "runs.outcome",
            "resources.base",
            "resources.transforms",
            "resources.transform_bulk",
            "resources.query_previews",
            "resources.custom_reports",
            "webhook.delivery",
        ),
        "What tasks return (XCom ``return_value``), as JSON.",
    ),
    "client": Page(
        "Client",
        ("api.request", "api.client", "api.async_client", "api.settings", "api.models.common"),
        "The interface without Airflow. Most DAGs need none of it.",
    ),
}

#: Modules of what the others of their package share.
SHARED = ("base", "change")

#: What of these modules is for the package itself, though its name does not say so.
INTERNAL = frozenset(
    {
        # What hooks are made of.
        "hooks.connection",
        "hooks.webhook_connection",
        "hooks.webhook_transport",
        # What notifiers are made of.
        "notifications.post",
        # What triggers are made of.
        "triggers.cursors",
        "triggers.stopped",
    }
)

#: Of modules that hold more than what a page is about: what of them it shows.
ONLY = {
    "pipelines.snapshot": {"Node", "Snapshot"},
    "runs.models": {"RunResult", "RunReference"},
    "runs.elt_sync": {"SyncResult"},
    "runs.outcome": {"Outcome"},
    "resources.base": {"Change", "IfExists"},
    "resources.transforms": {"DeployResult"},
    "resources.transform_bulk": {"BulkResult", "ItemResult"},
    "resources.query_previews": {"QueryResult"},
    "resources.custom_reports": {"ReportsResult", "ReportResult"},
    "webhook.delivery": {"IngestResult", "BatchResult", "Sent"},
    "api.request": {"Request", "Endpoint", "Repeat"},
    "api.client": {"Client"},
    "api.async_client": {"AsyncClient"},
    "api.settings": {"Settings"},
    "api.models.common": {"Page"},
}

#: Whose functions are for users; those of all others are what classes share.
WITH_FUNCTIONS = ("assets", "decorators", "notifications", "operators.schedules", "task_groups")

#: Whose methods are for users; of all others, Airflow or we ourselves call them.
WITH_METHODS = ("hooks.", "pipelines.snapshot", "api.client", "api.async_client")
#: Of those, what is for ourselves.
INTERNAL_METHODS = ("aget_settings", "run", "run_and_check", "sending", "settings")


def is_module(name: str) -> bool:
    """Tell whether there is such a module."""
    try:
        return find_spec(f"{PACKAGE}.{name}") is not None
    except ModuleNotFoundError:
        return False


def modules(names: tuple[str, ...]) -> Iterator[ModuleType]:
    """Give the modules of these names, and of packages theirs, as far as they are there."""
    for name in names:
        if not is_module(name):
            continue
        module = import_module(f"{PACKAGE}.{name}")
        yield module
        # What all of them share comes last.
        for found in sorted(pkgutil.iter_modules(getattr(module, "__path__", ())), key=lambda one: one.name in SHARED):
            if not found.name.startswith("_"):
                yield from modules((f"{name}.{found.name}",))


def members(module: ModuleType) -> list[str]:
    """Give the public classes and functions of a module, as they stand in it; exceptions have a page of their own."""
    short = module.__name__.removeprefix(f"{PACKAGE}.")
    if short in INTERNAL:
        return []
    named = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not (inspect.isclass(value) and issubclass(value, Exception))
        and (inspect.isclass(value) or (inspect.isfunction(value) and short.startswith(WITH_FUNCTIONS)))
        and value.__module__ == module.__name__
    }
    wanted = named & ONLY[short] if short in ONLY else named
    return sorted(wanted, key=lambda name: inspect.getsourcelines(vars(module)[name])[1])


def text(page: Page) -> str:
    """Give the text of a page; empty if there is nothing that it could tell."""
    parts = [_heading(page.title, "="), page.introduction, ""]
    sections = [(module, members(module)) for module in modules(page.modules)]
    sections = [(module, names) for module, names in sections if names]
    for module, names in sections:
        short = module.__name__.removeprefix(f"{PACKAGE}.")
        parts += [_heading(short, "-"), f".. automodule:: {module.__name__}", "   :no-members:", ""]
        for name in names:
            kind = "autoclass" if inspect.isclass(vars(module)[name]) else "autofunction"
            parts.append(f".. {kind}:: {module.__name__}.{name}")
            if kind == "autoclass" and short.startswith(WITH_METHODS):
                parts += ["   :members:", f"   :exclude-members: {', '.join(INTERNAL_METHODS)}"]
            parts.append("")
    return "\n".join(parts) if sections else ""


def index(names: list[str]) -> str:
    """Give the text of the page above them."""
    lines = [
        _heading("Reference", "="),
        "Written from the code, whenever these pages are built. All endpoints of the interface: :doc:`../interface`.",
        "",
        ".. toctree::",
        "   :maxdepth: 1",
        "",
        *(f"   {name}" for name in names),
        "",
    ]
    return "\n".join(lines)


def write(*_: object) -> None:
    """Write the pages; Sphinx calls this with itself."""
    pages = {name: text(page) for name, page in PAGES.items()}
    pages |= {"commands": generate_cli.page(), "exceptions": generate_messages.page()}
    pages = {name: content for name, content in pages.items() if content}
    pages["index"] = index(list(pages))
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, content in pages.items():
        file = FOLDER / f"{name}.rst"
        # What stays the same is not read again.
        if not file.exists() or file.read_text(encoding="utf-8") != content:
            file.write_text(content, encoding="utf-8")


def _heading(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}\n"


if __name__ == "__main__":
    write()

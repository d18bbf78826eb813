"""Directions of imports between packages, and the modules that the imports of a DAG file load."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.benchmarks.imports import OURS
from tests.support.airflow_versions import older_than

pytestmark = pytest.mark.medium


SOURCE = Path(__file__).parents[2] / "src"
PROVIDER = "airflow_provider_datapipe"

#: Parts of the provider that each of its packages may import, and whether it may import Airflow.
LAYERS: dict[str, tuple[list[str], bool]] = {
    "api": ([], False),
    "runs": (["api", "flows"], False),
    "resources": (["api", "flows", "runs"], False),
    # DAG files read snapshots.
    "pipelines": (["api", "flows", "runs", "resources"], False),
    "cli": (["api", "flows", "concurrent_flows", "runs", "resources", "pipelines", "hooks"], True),
    "lineage": (["api", "flows", "runs", "resources", "pipelines", "webhook", "hooks"], True),
    "webhook": (["api", "runs.task_state"], False),
    "hooks": (["api", "flows", "concurrent_flows", "runs", "webhook"], True),
}
#: Packages of the local service that each package must not import.
ABOVE = {
    "common": ["storage", "warehouse", "connectors", "services", "engine", "api", "control", "seed", "pages", "server"],
    "storage": ["warehouse", "connectors", "services", "engine", "api", "control", "seed", "pages", "server"],
    "warehouse": ["connectors", "services", "engine", "api", "control", "seed", "pages", "server"],
    "connectors": ["services", "engine", "api", "control", "seed", "pages", "server"],
    "services": ["engine", "api", "control", "seed", "pages", "server"],
    "engine": ["api", "control", "seed", "pages", "server"],
    "pages": ["services", "engine", "api", "control", "seed", "connectors", "server"],
    "api": ["engine", "control", "seed", "server"],
    "control": ["server"],
    "seed": ["control", "server"],
}
#: Modules that start runs and wait for them, which most DAG files import.
RUNS = [
    *(
        f"{PROVIDER}.operators.{module}"
        for module in ("elt_streams", "elt_syncs", "orchestrations", "reverse_etl_syncs", "transforms")
    ),
    *(f"{PROVIDER}.sensors.{module}" for module in ("run", "state")),
    *(f"{PROVIDER}.triggers.{module}" for module in ("condition", "events", "run")),
]
#: All modules that DAG files may import.
LIGHT = [
    *RUNS,
    f"{PROVIDER}.assets",
    *(f"{PROVIDER}.decorators.{module}" for module in ("query", "request", "webhook")),
    f"{PROVIDER}.notifications.failure",
    *(
        f"{PROVIDER}.operators.{module}"
        for module in ("connections", "custom_reports", "datapipe", "query_previews", "reverse_etl_failed_records")
    ),
    *(f"{PROVIDER}.operators.{module}" for module in ("schedules", "transform_folders", "webhooks", "workspaces")),
    f"{PROVIDER}.retries",
    f"{PROVIDER}.task_groups",
]
DEFAULT_DEFERRABLE = "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE"
HEAVY = {"httpx", "requests", "duckdb", f"{PROVIDER}.api", f"{PROVIDER}.runs", f"{PROVIDER}.hooks"}


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def below(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def imports_below(package: str, wanted: list[str], excluded: Sequence[str] = ()) -> list[str]:
    """Return the imports of a package from other packages, except excluded ones, with their files."""
    files = sorted((SOURCE / package).rglob("*.py"))
    assert files
    return [
        f"{path.relative_to(SOURCE)}: {name}"
        for path in files
        for name in imports_of(path)
        if below(name, wanted) and not below(name, excluded)
    ]


@pytest.mark.parametrize("room", LAYERS)
def test_imports_go_one_way(room: str) -> None:
    others, may_import_airflow = LAYERS[room]
    allowed = [f"{PROVIDER}.{name}" for name in (room, *others, "__version__")]
    packages = [PROVIDER, "datapipe_local", *([] if may_import_airflow else ["airflow"])]
    assert imports_below(f"{PROVIDER}/{room}", packages, allowed) == []


def test_local_service_imports_only_models_of_the_provider() -> None:
    allowed = [f"{PROVIDER}.api.models", f"{PROVIDER}.__version__"]
    assert imports_below("datapipe_local", [PROVIDER, "airflow"], allowed) == []


def loaded_by(modules: Sequence[str], *, then: str = "") -> list[str]:
    program = (
        "import sys, json, importlib, airflow\nfrom airflow.sdk import DAG, BaseOperator\nbefore = set(sys.modules)\n"
        f"for name in {list(modules)!r}: importlib.import_module(name)\n"
        f"{then}\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    loaded: list[str] = json.loads(answer.stdout.splitlines()[-1])
    return loaded


@pytest.mark.parametrize(("modules", "most"), [(RUNS, 18), (LIGHT, 48), (LIGHT[-3:-2], 7)], ids=["runs", "all", "one"])
def test_imports_of_dag_files_load_nothing_heavy(modules: list[str], most: int) -> None:
    # A policy of retries can't be imported where Airflow has none.
    loaded = loaded_by([name for name in modules if name != f"{PROVIDER}.retries" or not older_than("3.3")])
    assert HEAVY.isdisjoint(loaded)
    # Airflow 3.3 loads the package itself when it starts, for its entry point; earlier versions load it later.
    beyond_airflow = [name for name in loaded if name != PROVIDER and not name.startswith(("airflow.", "pydantic."))]
    assert len(beyond_airflow) <= most, beyond_airflow


def test_the_budget_of_modules_is_kept() -> None:
    # Counted as the benchmark counts: Airflow's own are free, those of its providers are not.
    loaded = loaded_by(OURS.modules)
    beyond_airflow = [
        name for name in loaded if not name.startswith("airflow.") or name.startswith("airflow.providers.")
    ]
    assert set(OURS.modules) <= set(beyond_airflow)
    assert len(beyond_airflow) <= 15, beyond_airflow


@pytest.mark.parametrize("configured", [None, "True", "False"])
def test_default_of_deferrable_is_configured(configured: str | None) -> None:
    program = (
        "import json\n"
        "from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator as Operator\n"
        "from airflow_provider_datapipe.sensors.run import EltStreamRunSensor as Sensor\n"
        "wanted = {'stream_id': 'orders'}\n"
        "print(json.dumps([Operator(task_id='one', **wanted).deferrable, Sensor(task_id='two', **wanted).deferrable,\n"
        "    Operator(task_id='three', deferrable=True, **wanted).deferrable]))"
    )
    environment = {name: value for name, value in os.environ.items() if name != DEFAULT_DEFERRABLE}
    if configured is not None:
        environment[DEFAULT_DEFERRABLE] = configured
    answer = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert json.loads(answer.stdout.splitlines()[-1]) == [configured == "True", configured == "True", True]


def test_an_asset_in_a_dag_file_loads_nothing_heavy() -> None:
    # Airflow loads what checks URIs, and what makes datasets of assets, for all schemes.
    module = f"{PROVIDER}.assets"
    loaded = loaded_by([module], then=f"sys.modules[{module!r}].elt_stream_asset('orders')")
    assert f"{PROVIDER}.lineage.assets" in loaded
    assert {f"{PROVIDER}.lineage.tasks", "openlineage"}.isdisjoint(loaded)
    assert HEAVY.isdisjoint(loaded)


@pytest.mark.parametrize("room", ABOVE)
def test_imports_of_the_local_service_go_in_one_direction(room: str) -> None:
    assert imports_below(f"datapipe_local/{room}", [f"datapipe_local.{name}" for name in ABOVE[room]]) == []

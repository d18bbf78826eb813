"""
Cost of the imports of a DAG file.

``python -m tests.benchmarks.imports MODULE...`` imports modules, and prints the cost in addition to Airflow.
"""

from __future__ import annotations

import gc
import importlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.environment import process_env
from tests.benchmarks.figures import memory_of

#: Time limit of one interpreter in seconds.
_LIMIT = 120.0


@dataclass(frozen=True, slots=True)
class Importable:
    """Imports of a DAG file."""

    name: str
    distribution: str
    modules: tuple[str, ...]


_OURS = "airflow_provider_datapipe"
OURS = Importable(
    "datapipe",
    "airflow-provider-datapipe",
    (
        *(
            f"{_OURS}.operators.{module}"
            for module in ("elt_streams", "orchestrations", "reverse_etl_syncs", "transforms")
        ),
        f"{_OURS}.sensors.run",
        f"{_OURS}.triggers.run",
    ),
)
IMPORTABLE: tuple[Importable, ...] = (
    OURS,
    Importable(
        "airbyte",
        "apache-airflow-providers-airbyte",
        tuple(f"airflow.providers.airbyte.{part}.airbyte" for part in ("operators", "sensors", "triggers")),
    ),
    Importable(
        "dbt_cloud",
        "apache-airflow-providers-dbt-cloud",
        tuple(f"airflow.providers.dbt.cloud.{part}.dbt" for part in ("operators", "sensors", "triggers")),
    ),
    Importable(
        "fivetran",
        "airflow-provider-fivetran-async",
        tuple(f"fivetran_provider_async.{part}" for part in ("operators", "sensors", "triggers")),
    ),
    # This provider has no triggers.
    Importable(
        "hightouch",
        "airflow-provider-hightouch",
        tuple(f"airflow_provider_hightouch.{part}.hightouch" for part in ("operators", "sensors")),
    ),
    Importable("Airflow's `triggers.base` alone", "apache-airflow", ("airflow.triggers.base",)),
)


@dataclass(frozen=True, slots=True)
class Imported:
    """Cost in seconds and bytes."""

    name: str
    wall: float
    cpu: float
    modules: int
    others: int
    memory: int
    largest: Mapping[str, int]


def measure_imports(names: list[str], repetitions: int, python: str = sys.executable) -> Iterator[Imported]:
    """Import each in new interpreters, alternately."""
    with TemporaryDirectory(prefix="datapipe-bench-") as folder:
        # Without SSL_CERT_FILE, which some libraries read at import.
        env = process_env(Path(folder) / "airflow")
        # The first repetition fills the caches, and is not counted.
        for repetition in range(-1 if repetitions > 1 else 0, repetitions):
            for each in IMPORTABLE:
                if each.name not in names:
                    continue
                command = [python, "-m", "tests.benchmarks.imports", *each.modules]
                done = subprocess.run(  # noqa: S603 - this module
                    command, env=env, cwd=folder, capture_output=True, text=True, check=True, timeout=_LIMIT
                )
                if repetition >= 0:
                    yield Imported(name=each.name, **json.loads(done.stdout.splitlines()[-1]))


def _package(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:3]) if module.startswith("airflow.providers.") else parts[0]


def main(modules: list[str]) -> None:
    """Import modules, and print the cost."""
    import airflow  # noqa: F401 - part of the baseline
    from airflow.sdk import DAG, BaseOperator  # noqa: F401 - part of the baseline

    gc.collect()
    before, memory = set(sys.modules), memory_of("self")
    wall, cpu = time.perf_counter(), time.process_time()
    for module in modules:
        importlib.import_module(module)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory = memory_of("self") - memory
    packages = Counter(_package(module) for module in set(sys.modules) - before)
    took = {
        "wall": wall,
        "cpu": cpu,
        "modules": packages.total(),
        "others": packages.total() - packages["airflow"],
        "memory": memory,
        "largest": dict(packages.most_common(4)),
    }
    print(json.dumps(took))


if __name__ == "__main__":
    main(sys.argv[1:])

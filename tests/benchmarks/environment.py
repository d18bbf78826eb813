"""Environment of a measurement: the interpreter, its packages, and the machine."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[2]
#: Variables that could affect the measurements.
_NOT_INHERITED = ("AIRFLOW", "PYTHON", "SSL_CERT", "DATAPIPE")
_ASK = """
import importlib.metadata, json, platform, sys
versions = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(versions))
"""


def process_env(home: Path) -> dict[str, str]:
    """Return the environment of a measured process."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_NOT_INHERITED) and not name.lower().endswith("_proxy")
    }
    ours = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # Connections come from the environment, like in a task or a triggerer.
        "_AIRFLOW_PROCESS_CONTEXT": "client",
        "DO_NOT_TRACK": "1",
        "NO_PROXY": "*",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
    return kept | ours


def versions(python: str, distributions: list[str]) -> dict[str, str]:
    """Return the installed versions of these packages, and the version of the interpreter."""
    done = subprocess.run(  # noqa: S603 - interpreter chosen by the user
        [python, "-c", _ASK, *distributions], capture_output=True, text=True, check=True, timeout=60
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


@dataclass(frozen=True, slots=True)
class Machine:
    """Machine and versions of a measurement."""

    day: str
    processor: str
    cores: int
    memory_gb: float
    system: str
    versions: Mapping[str, str]

    @classmethod
    def this(cls, found: Mapping[str, str]) -> Self:
        return cls(
            day=datetime.now(UTC).date().isoformat(),
            processor=_processor(),
            cores=len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1,
            memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            system=f"{platform.system()} {platform.release()}",
            versions=dict(found),
        )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

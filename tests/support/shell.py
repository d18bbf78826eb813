"""Shell commands of pages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def user_environment() -> dict[str, str]:
    """Return the environment of a user: the commands of this interpreter, without settings of the tests."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "DATAPIPE"))}
    return env | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"}


def bash(text: str, folder: Path, env: Mapping[str, str]) -> str:
    """
    Run commands in a shell, and return their output. The first failed command fails the test.

    :param text: The commands.
    :param folder: The working directory.
    :param env: All environment variables.
    """
    done = subprocess.run(  # noqa: S603 - commands of the docs
        ["bash", "-euo", "pipefail", "-c", text],  # noqa: S607 - bash from PATH
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout

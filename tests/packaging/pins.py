"""
Update the pins of older Airflow versions: ``python -m tests.packaging.pins``.

Run it after a change of ``constraints.txt``. It pins the newest patch release of each minor version, and the versions
of ``constraints.txt`` for all other packages if they are compatible. To add a version, create
``constraints-<minor>.txt`` with the line ``apache-airflow==<version>``.
"""

from __future__ import annotations

import re
import subprocess
import sys

from tests.packaging.versions import ROOT, airflows

_AIRFLOW = re.compile(r"apache-airflow(-core|-task-sdk)?==")
_NEWEST = "constraints.txt"
#: Versions that an older Airflow allows, but does not work with.
_LIMITS = {
    # With svcs 26 or later, the in-process API of dag.test() in Airflow 3.2 does not find its registry.
    "3.2": ["svcs<26"],
}


def main() -> None:
    kept = [line for line in (ROOT / _NEWEST).read_text().splitlines(keepends=True) if not _AIRFLOW.match(line)]
    for minor, file in airflows().items():
        if file.name == _NEWEST:
            continue
        # uv prefers the versions in an existing output file.
        new = file.with_suffix(".txt.new")
        new.write_text("".join(kept))
        plain = ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
        subprocess.run(  # noqa: S603 - command of this module
            [
                *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--all-extras", *plain),
                *("--python", sys.executable, "--output-file", new, "pyproject.toml", "-"),
            ],
            cwd=ROOT,
            input="\n".join([f"apache-airflow=={minor}.*", "uv", *_LIMITS.get(minor, [])]),
            text=True,
            check=True,
        )
        new.replace(file)


if __name__ == "__main__":
    main()

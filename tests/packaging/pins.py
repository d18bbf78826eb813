"""
Write the pins for the older versions of Airflow: ``python -m tests.packaging.pins``.

After ``constraints.txt`` has changed. The newest patch of each, and of all else what ``constraints.txt`` has, as far as
it goes with that. A new one begins as
``constraints-<minor>.txt`` with the line ``apache-airflow==<version>``.
"""

from __future__ import annotations

import re
import subprocess
import sys

from tests.packaging.versions import ROOT, airflows

_AIRFLOW = re.compile(r"apache-airflow(-core|-task-sdk)?==")
_NEWEST = "constraints.txt"
#: What an older Airflow allows, and does not work with.
_LIMITS = {
    # Since svcs 26, the API that Airflow 3.2 has in the process of dag.test() does not find its registry.
    "3.2": ["svcs<26"],
}


def main() -> None:
    kept = [line for line in (ROOT / _NEWEST).read_text().splitlines(keepends=True) if not _AIRFLOW.match(line)]
    for minor, file in airflows().items():
        if file.name == _NEWEST:
            continue
        # uv takes what is in the file that it writes, where it can.
        new = file.with_suffix(".txt.new")
        new.write_text("".join(kept))
        plain = ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
        subprocess.run(  # noqa: S603 - our own words
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

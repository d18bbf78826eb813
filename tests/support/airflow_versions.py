"""What earlier versions of Airflow have elsewhere, or not at all, for the tests that run on all of them."""

from __future__ import annotations

from typing import Any

import pytest
from airflow import __version__
from packaging.version import Version


def older_than(version: str) -> bool:
    """
    Tell whether this Airflow is older. A release candidate has what its release has.

    :param version: A version.
    """
    return Version(version) > Version(Version(__version__).base_version)


#: For programs that read a folder of DAG files.
IMPORT_DAG_BAG = f"from airflow.{'models' if older_than('3.2') else 'dag_processing'}.dagbag import DagBag\n"


def since(version: str, what: str) -> pytest.MarkDecorator:
    """
    Skip a test where Airflow does not have what it is about.

    By its version: if it were looked for, a new Airflow in which it has moved would skip the test, too.

    :param version: The first version of Airflow that has it.
    :param what: What it is, such as "task state".
    """
    return pytest.mark.skipif(older_than(version), reason=f"{what}: since Airflow {version}")


def dag_serialization() -> Any:
    """Give the class that stores DAGs and reads them back."""
    from airflow.serialization import serialized_objects

    return getattr(serialized_objects, "SerializedDAG" if older_than("3.2") else "DagSerialization")

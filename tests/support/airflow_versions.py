"""Names that differ between Airflow versions, and version markers of tests."""

from __future__ import annotations

from typing import Any

import pytest
from airflow import __version__
from packaging.version import Version


def older_than(version: str) -> bool:
    """Return True if this Airflow is older than a version. A release candidate counts as its release."""
    return Version(version) > Version(Version(__version__).base_version)


#: Variable for programs that parse a folder of DAG files.
IMPORT_DAG_BAG = f"from airflow.{'models' if older_than('3.2') else 'dag_processing'}.dagbag import DagBag\n"


def since(version: str, what: str) -> pytest.MarkDecorator:
    """
    Skip a test on Airflow versions without a feature.

    The marker compares versions. A check for the feature itself would also skip on a new Airflow that has moved it.

    :param version: The first version of Airflow with the feature.
    :param what: The feature, such as "task state".
    """
    return pytest.mark.skipif(older_than(version), reason=f"{what}: since Airflow {version}")


def dag_serialization() -> Any:
    """Return the class that serializes and deserializes DAGs."""
    from airflow.serialization import serialized_objects

    return getattr(serialized_objects, "SerializedDAG" if older_than("3.2") else "DagSerialization")

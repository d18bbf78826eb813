"""A home for Airflow that is not the user's, set before any test imports it."""

from __future__ import annotations

import os
import tempfile

_HOME = tempfile.TemporaryDirectory(prefix="airflow-home-")
os.environ["AIRFLOW_HOME"] = _HOME.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"

"""Entry point of ``python -m airflow_provider_datapipe.cli``, which is the same as ``datapipe``."""

from __future__ import annotations

from airflow_provider_datapipe.cli.program import script

if __name__ == "__main__":
    script()

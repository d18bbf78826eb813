"""Apache Airflow provider for a managed data pipeline service."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"

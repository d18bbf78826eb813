"""Airflow triggers over ``runs`` and ``api``."""

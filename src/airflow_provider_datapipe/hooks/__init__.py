"""Airflow hooks, based on ``runs`` and ``api``."""

"""Airflow sensors, based on ``runs`` and ``api``."""

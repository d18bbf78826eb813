"""Airflow hooks over ``runs`` and ``api``."""

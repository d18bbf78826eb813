"""Airflow sensors over ``runs`` and ``api``."""

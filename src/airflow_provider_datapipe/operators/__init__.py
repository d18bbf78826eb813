"""Airflow operators over ``runs`` and ``api``."""

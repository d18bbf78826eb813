"""Airflow with CeleryExecutor, Redis and PostgreSQL, two of each component, under kills: ``make distributed``."""

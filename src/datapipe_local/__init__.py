"""The data pipeline service on one machine: the REST interface over SQLite and a DuckDB warehouse."""

"""Local data pipeline service: the REST interface over SQLite and a DuckDB warehouse."""

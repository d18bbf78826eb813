"""Warehouse: the DuckDB file, loads into it, and queries of users over it."""

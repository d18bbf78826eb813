"""Connectors: sources that streams read from, and destinations that reverse ETL syncs write to."""

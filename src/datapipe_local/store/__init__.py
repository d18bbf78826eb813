"""The state of the service, in SQLite."""

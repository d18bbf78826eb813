"""State of the service, stored in SQLite."""

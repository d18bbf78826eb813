"""Command line: init, serve, reset, status, export, query and schema."""

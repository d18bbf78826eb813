"""Seed file: the initial content of a home."""

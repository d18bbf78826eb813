"""The seed file: what a home starts with."""

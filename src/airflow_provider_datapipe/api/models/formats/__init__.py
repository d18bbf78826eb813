"""Parsers of text formats that the provider and the local service share, without I/O."""

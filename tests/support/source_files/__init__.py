"""Malformed and unusual source files, with the tables that they contain according to their formats."""

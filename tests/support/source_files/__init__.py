"""Malformed and tricky source files, with the tables that they stand for by the definitions of their formats."""

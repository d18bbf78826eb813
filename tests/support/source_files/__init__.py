"""Malformed and tricky source files, with the tables that they contain by the definitions of their formats."""

"""Processes that run users' queries, with limits on memory and time."""

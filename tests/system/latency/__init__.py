"""Seconds from the end of a run to the success of its task, by executor and mode."""

"""Telling people that a task has failed, and why."""

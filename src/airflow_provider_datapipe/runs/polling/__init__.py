"""Polling of runs: the schedule of polls, bulk status requests, and the shared poller of a triggerer."""

"""Flows that create, update and delete resources of the service, without I/O of their own."""

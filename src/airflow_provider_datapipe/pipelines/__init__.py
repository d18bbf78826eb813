"""Snapshots of the service's resources, and their graph. DAG files read snapshots with the standard library only."""

"""Transforms as code: SQL files in a folder define the transforms of the service."""

"""Transforms as code: a folder of SQL files is what the service is to hold."""

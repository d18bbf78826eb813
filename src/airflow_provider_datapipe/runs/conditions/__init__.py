"""Conditions that sensors wait for."""

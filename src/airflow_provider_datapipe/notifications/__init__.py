"""Notifications of failed tasks and DAG runs."""

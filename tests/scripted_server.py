"""Moved to tests.support.scripted_server; this goes when nobody imports it from here."""

from tests.support.scripted_server import *  # noqa: F403

"""Moved to tests.support.raw_server; this goes when nobody imports it from here."""

from tests.support.raw_server import *  # noqa: F403

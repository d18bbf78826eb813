"""Moved to tests.support.local_service; this goes when nobody imports it from here."""

from tests.support.local_service import *  # noqa: F403

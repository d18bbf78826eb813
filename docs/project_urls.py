"""
Project URLs of the distributions, a metadata hook of Hatchling.

Airflow's Providers page links to the URL ``Documentation``. Its address depends on who publishes the documentation: it
comes from the environment variable ``DOCUMENTATION_URL`` of the build.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ProjectUrls(MetadataHookInterface):
    """Adds the URL of the documentation, if it is set."""

    def update(self, metadata: dict[str, Any]) -> None:
        """
        Add the URL.

        :param metadata: The metadata of the project.
        :raises ValueError: If the address is not an HTTPS URL.
        """
        address = os.environ.get("DOCUMENTATION_URL", "")
        if address and not address.startswith("https://"):
            raise ValueError(f"DOCUMENTATION_URL must be an address that begins with https://, not {address!r}")
        metadata["urls"] = {"Documentation": address} if address else {}

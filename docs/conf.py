"""Sphinx configuration."""

from __future__ import annotations

from airflow_provider_datapipe import __version__

project = "airflow-provider-datapipe"
author = "the airflow-provider-datapipe authors"
project_copyright = "2026, the airflow-provider-datapipe authors"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
exclude_patterns = ["_build"]

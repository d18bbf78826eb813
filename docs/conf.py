"""Sphinx configuration."""

from __future__ import annotations

import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from airflow_provider_datapipe import __version__

sys.path.insert(0, str(Path(__file__).parent))
import generate_endpoints

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


def setup(app: Sphinx) -> None:
    """Write what is written from the code, before anything is read."""
    app.connect("builder-inited", generate_endpoints.write)
    # Pictures in Mermaid are shown as they are written; GitHub draws them.
    app.add_lexer("mermaid", TextLexer)

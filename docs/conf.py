"""Sphinx configuration."""

from __future__ import annotations

import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from pygments.lexers.templates import SqlJinjaLexer
from sphinx.application import Sphinx

from airflow_provider_datapipe import __version__

sys.path.insert(0, str(Path(__file__).parent))
import breaks
import check_html
import generate_endpoints
import generate_reference
import pictures
import references

project = "airflow-provider-datapipe"
author = "the airflow-provider-datapipe authors"
project_copyright = "2026, the airflow-provider-datapipe authors"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["static"]
html_css_files = ["pages.css"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
# What is inherited is told where it is from.
autodoc_typehints_description_target = "documented"
# Every reference has to lead somewhere; `references` says what may lead to what is documented elsewhere.
nitpicky = True
exclude_patterns = ["_build"]


def setup(app: Sphinx) -> None:
    """Write what is written from the code, before anything is read."""
    app.connect("builder-inited", generate_endpoints.write)
    app.connect("builder-inited", generate_reference.write)
    app.connect("missing-reference", references.resolve)
    # Before Sphinx collects the pictures of a page.
    app.connect("doctree-read", pictures.put_in, priority=400)
    app.connect("doctree-resolved", breaks.put_in)
    app.connect("build-finished", check_html.check)
    # They are text until then.
    app.add_lexer("mermaid", TextLexer)
    # References stand in double braces.
    app.add_lexer("sql", SqlJinjaLexer)

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
import generate_interface
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
# Inherited parameters are documented at the base class.
autodoc_typehints_description_target = "documented"
# Every reference must resolve; `references` resolves those that Sphinx does not.
nitpicky = True
# The introduction is a part of the generated page.
exclude_patterns = ["_build", "interface_introduction.md"]


def setup(app: Sphinx) -> None:
    """Connect the generators of pages, the resolver of references, and the checks."""
    app.connect("builder-inited", generate_interface.write)
    app.connect("builder-inited", generate_reference.write)
    app.connect("missing-reference", references.resolve)
    # Before Sphinx collects the pictures of a page.
    app.connect("doctree-read", pictures.put_in, priority=400)
    app.connect("doctree-resolved", breaks.put_in)
    app.connect("build-finished", check_html.check)
    # Blocks of diagrams are text until pictures replace them.
    app.add_lexer("mermaid", TextLexer)
    # SQL templates have references in double braces.
    app.add_lexer("sql", SqlJinjaLexer)

"""HTML pages without scripts and external resources."""

"""Where ELT reads: one module per kind of source."""

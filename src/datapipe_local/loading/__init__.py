"""Loading: what a source has becomes a table of the warehouse, whole or not at all."""

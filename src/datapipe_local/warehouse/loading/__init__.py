"""Loading of source data into warehouse tables, completely or not at all."""

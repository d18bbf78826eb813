"""What tasks read and write, told to OpenLineage. Loaded only where its provider asks for it."""

"""What the interface sends, field by field: the schemas of the OpenAPI document, and nothing else than they name."""

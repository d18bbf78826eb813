"""Response schemas of the OpenAPI document. They contain only the fields that the interface defines."""

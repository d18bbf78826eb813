"""Request bodies and response schemas, one module per resource. Routes and the OpenAPI document use the same models."""

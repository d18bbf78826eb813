"""Server: application, process, authentication, error responses, logging and the OpenAPI document."""

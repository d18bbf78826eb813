"""REST interface: routes, request bodies, response schemas and serializers."""

"""What the interface sends and takes, one module per resource.

Answers keep fields that this version does not know, and enum values that it does not know stay text:
the service may be newer than the provider. What is sent (``...Request``) is strict.
"""

"""Request and response models of the interface, one module per resource.

Responses keep unknown fields, and unknown enum values stay text: the service may be newer than the provider.
Requests (``...Request``) are strict.
"""

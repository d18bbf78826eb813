"""The REST interface: one router per resource, nothing but HTTP."""

"""The rules of the interface: one module per resource."""

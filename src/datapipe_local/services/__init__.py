"""Business rules of the Datapipe interface, one module per resource."""

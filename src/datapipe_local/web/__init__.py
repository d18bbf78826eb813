"""The page at ``/``: what a browser is given, as it is. Everything on it comes from the service's own interface."""

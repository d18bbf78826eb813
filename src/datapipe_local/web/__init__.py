"""Page at ``/``: static files for browsers. All data on it comes from the service's own interface."""

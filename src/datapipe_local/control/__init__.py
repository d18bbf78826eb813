"""The control plane under ``/_local/``: what tests need to look behind the interface and to break it."""

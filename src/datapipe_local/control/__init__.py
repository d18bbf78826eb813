"""Control plane under ``/_local/``: inspection, faults and time control for tests."""

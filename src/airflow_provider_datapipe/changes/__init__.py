"""What it takes to bring something about on the service, as steps apart from I/O; shared by all operators that do."""

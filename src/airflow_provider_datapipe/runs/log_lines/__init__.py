"""Lines of the task log about runs. Pure: no I/O, and no clock of its own."""

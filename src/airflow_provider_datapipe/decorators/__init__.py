"""TaskFlow decorators: the function says what is sent, and the task sends it, waits, and returns what came of it."""

"""TaskFlow decorators. The function returns arguments of an operator, which the task then executes."""

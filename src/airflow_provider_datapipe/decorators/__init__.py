"""TaskFlow decorators: the function returns the arguments of an operator, which the task then executes."""

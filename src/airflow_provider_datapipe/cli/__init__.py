"""
Commands of ``datapipe`` and ``airflow datapipe``, which are the same.

Each command is a :class:`~.command.Command` in its own module. :mod:`.program` lists them.
"""

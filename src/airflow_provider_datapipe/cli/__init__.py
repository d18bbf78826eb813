"""
The command ``datapipe``, and ``airflow datapipe``, which is the same.

Each command has a module of its own with a :class:`~.command.Command`; :mod:`.program` lists them.
"""

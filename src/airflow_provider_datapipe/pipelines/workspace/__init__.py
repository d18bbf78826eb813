"""
A workspace as one YAML file: orchestrations, ELT syncs with their streams, and reverse ETL syncs.

:mod:`.document` parses the file with line numbers, :mod:`.models` validates it, :mod:`.held` reads the service,
:mod:`.matching` finds the resources of entries, :mod:`.differences` compares them, :mod:`.work` applies changes,
:mod:`.pulling` writes the file.
"""

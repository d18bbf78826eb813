"""
A workspace as one YAML file: orchestrations, ELT syncs with their streams, and reverse ETL syncs.

:mod:`.document` reads the file and knows its lines, :mod:`.models` says what may stand in it, :mod:`.held` reads the
service, :mod:`.matching` finds what is meant, :mod:`.differences` tells what would change, :mod:`.work` how it is done,
:mod:`.pulling` writes the file.
"""

"""
A workspace as one YAML file: orchestrations, ELT syncs with their streams, and reverse ETL syncs.

:mod:`.document` parses the file with line numbers, :mod:`.models` validates it, :mod:`.current_resources` reads the
service, :mod:`.matching` finds the resources of entries, :mod:`.planning` compares them, :mod:`.applying` applies the
changes in :mod:`.units`, :mod:`.pulling` writes the file. :mod:`.apply_elt_syncs` and its siblings define the requests
for each kind of resource.
"""

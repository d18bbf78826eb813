"""What a service holds as a file, and the graph in it. Reading one needs the standard library only: DAG files do."""

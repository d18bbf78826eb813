"""OpenLineage support. Imported only if Airflow's OpenLineage provider is used."""

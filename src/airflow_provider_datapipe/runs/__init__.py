"""What a run is, apart from Airflow and from I/O: shared by operators, sensors and triggers."""

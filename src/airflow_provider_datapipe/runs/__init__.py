"""Logic of runs without Airflow, shared by operators, sensors and triggers. Most of it does no I/O."""

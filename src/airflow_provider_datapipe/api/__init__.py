"""The service's REST interface: requests, models and clients. Knows nothing of Airflow."""

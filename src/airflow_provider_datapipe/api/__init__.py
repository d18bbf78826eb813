"""The service's REST interface: requests, models and clients. Independent of Airflow."""

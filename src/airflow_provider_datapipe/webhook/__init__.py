"""Push of records to a webhook: sources, batches, delivery and the state of retries. Does not import Airflow."""

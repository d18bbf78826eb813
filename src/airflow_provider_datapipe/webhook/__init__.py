"""Push of records to a webhook: sources, batches, delivery and the task state for retries. Does not import Airflow."""

"""Pushing records to a webhook: from where, in which batches, and what a retry knows. Knows nothing of Airflow."""

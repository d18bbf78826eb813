"""Test with 1,000 deferred tasks in one real triggerer."""

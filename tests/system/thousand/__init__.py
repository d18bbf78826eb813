"""A thousand deferred tasks in one real triggerer."""

"""Many short deferred tasks on LocalExecutor. The scheduler must not fail any of them."""

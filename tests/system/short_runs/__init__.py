"""Many short deferred tasks on LocalExecutor: none may be failed by the scheduler."""

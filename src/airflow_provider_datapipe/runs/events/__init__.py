"""Events for asset watchers: event sources, cursors, and the shared poller of a triggerer."""

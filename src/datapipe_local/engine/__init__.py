"""Engine that executes runs in the background."""

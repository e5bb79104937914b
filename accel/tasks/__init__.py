"""What `grove train` can learn, one task a file; `job` says what a task is."""

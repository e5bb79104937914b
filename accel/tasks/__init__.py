"""What `grove train` can learn, one task a file, and what several tasks share; `job` says what a task is."""

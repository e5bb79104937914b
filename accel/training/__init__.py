"""The training loop, its optimisers, schedules and checkpoints, and communication between processes."""

"""The commands of `grove`, one a file, and what several share; each has `add_arguments(parser)` and `run(options)`."""

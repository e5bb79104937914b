"""The commands of `grove`, one a file: `add_arguments(parser)` says what a command takes, `run(options)` does it."""

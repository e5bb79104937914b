"""What a GPU does with Grove, in one command: tests, sanitizers, times beside PyTorch, short trainings."""

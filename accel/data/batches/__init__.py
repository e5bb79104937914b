"""The input of a training step: batches and their order."""

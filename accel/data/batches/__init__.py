"""What a training step reads: batches and their order."""

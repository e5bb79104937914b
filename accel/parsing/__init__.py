"""Trees of sentences, from every kind of model."""

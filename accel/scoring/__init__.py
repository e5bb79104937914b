"""Log-probabilities and surprisals."""

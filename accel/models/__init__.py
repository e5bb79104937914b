"""Batched models, one file a paper, each written once against the ops of any backend."""

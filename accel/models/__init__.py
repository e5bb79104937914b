"""Batched models, one folder a paper, each written once against the ops of any backend."""

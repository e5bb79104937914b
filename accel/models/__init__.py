"""Batched models, one folder for each paper, each written once against the ops of any backend."""

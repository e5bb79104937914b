"""Generative Pretrained Structured Transformers (Hu et al. 2024)."""

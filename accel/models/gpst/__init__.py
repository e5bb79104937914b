"""Generative Pretrained Structured Transformers, and GPT-2."""

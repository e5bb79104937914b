"""Treeformer (Patel and Flanigan 2022)."""

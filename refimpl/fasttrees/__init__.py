"""FastTrees (Pung and Chan 2021)."""

"""Data that programs generate: a grammar of English, logic, arithmetic, agreement."""

"""Data that programs make: a grammar of English, logic, arithmetic, agreement."""

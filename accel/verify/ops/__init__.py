"""The table of operations, one row an operation."""

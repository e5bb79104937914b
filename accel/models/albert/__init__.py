"""ALBERT, below a chart or alone: its configuration and its passes."""

"""Reading files: lines, archives, memory-mapped arrays."""

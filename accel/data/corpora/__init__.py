"""The contents of files: treebanks, documents, constituents, proposals."""

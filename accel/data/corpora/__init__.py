"""What files hold: treebanks, documents, constituents, proposals."""

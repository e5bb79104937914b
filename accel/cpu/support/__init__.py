"""What the operations of this backend share."""

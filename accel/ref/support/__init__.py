"""Code that several operations of this backend share."""

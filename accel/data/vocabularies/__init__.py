"""Vocabularies: symbols and words to ids, and word vectors."""

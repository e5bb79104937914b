"""The conformance kit: any backend against the reference."""

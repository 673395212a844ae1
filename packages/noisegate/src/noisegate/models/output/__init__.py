"""Samples written to files."""

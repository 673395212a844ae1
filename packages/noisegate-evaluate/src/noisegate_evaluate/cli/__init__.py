"""Cli; see the package."""

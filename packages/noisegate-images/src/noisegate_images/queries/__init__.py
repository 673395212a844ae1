"""Features; see the package."""

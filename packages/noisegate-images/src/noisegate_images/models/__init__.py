"""Models; see the package."""

"""Methods; see the package."""

"""Training; see the package."""

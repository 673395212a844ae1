"""Networks; see the package."""

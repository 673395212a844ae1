"""Models of records, which make new ones. Public side: they see releases, never records."""

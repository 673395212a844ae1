"""Networks that make records. Public side: they see releases, never records."""

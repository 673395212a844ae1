"""Folders to hand out: synthetic records, their descriptions and the certificate."""

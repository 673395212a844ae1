"""One paper, one short file."""

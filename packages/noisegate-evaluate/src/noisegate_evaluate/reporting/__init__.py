"""Pages and pictures of what came out, for people."""

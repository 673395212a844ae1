"""Pages and pictures of what came out, for people to look at."""

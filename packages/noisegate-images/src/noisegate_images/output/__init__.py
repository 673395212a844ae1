"""Files and pictures of synthetic images."""

"""Images: the default method for them, its generators, and the readers of private images."""

"""Private images, read in constant memory."""

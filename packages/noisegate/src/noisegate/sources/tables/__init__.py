"""Private tables, read in constant memory."""

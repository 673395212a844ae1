"""What is sampled, saved and loaded."""

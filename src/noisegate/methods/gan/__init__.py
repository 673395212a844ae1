"""Private GANs: of records, and of an encoder's features."""

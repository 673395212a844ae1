"""Private Set Generation: a small set of records whose gradients match noisy ones."""

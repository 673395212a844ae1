"""The border: private records come up to it, noisy sums and counts leave it, and nothing else does."""

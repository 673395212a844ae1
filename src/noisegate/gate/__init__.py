"""The border: private records come up to it, bounded noisy sums leave it, and nothing else does."""

"""DP-HP: mean embeddings of Hermite features."""

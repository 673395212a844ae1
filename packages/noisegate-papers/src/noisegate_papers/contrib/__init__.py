"""Adapters to other people's decoders, and pretraining on public images."""

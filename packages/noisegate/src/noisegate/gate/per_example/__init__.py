"""Gradients of one record: computed, clipped and summed exactly."""

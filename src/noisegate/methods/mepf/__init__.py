"""DP-MEPF: moments of perceptual features, and its variant with an encoder trained at the gate."""

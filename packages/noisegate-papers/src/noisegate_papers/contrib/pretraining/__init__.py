"""Training on public images, before any private record is touched. Nothing here may be given private ones."""

"""Matching a generator to a release. Post-processing: it may run anywhere, as long as it likes, at no privacy cost."""

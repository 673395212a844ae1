"""The border: private records come up to it, noisy sums and counts leave it, and nothing else does.

Every kind of query in `queries` runs on the one state machine of `session`, which
reserves the whole cost before a record is read, and alone asks for noise
(`.importlinter` sees to it); but OpenDP's AIM and MST draw their own.
"""

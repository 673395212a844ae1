"""The border: private records come up to it, noisy sums and counts leave it, and nothing else does.

It has three doors, and no other module joins records with noise (`.importlinter` sees to it): `session` answers the
questions of a plan, `discovery` finds bounds and levels before there is a schema, `marginals` hands codes to OpenDP's
AIM and MST, whose noise is their own. Each reserves its whole cost before it reads a record.
"""

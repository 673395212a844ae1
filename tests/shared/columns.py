"""Columns in a few words, for the schemas of tests; what is said beside is as the classes have it."""

from noisegate.schema import Boolean, Categorical, Continuous, Integer, Ordinal


def continuous(name, lower=0.0, upper=1.0, **more):
    """Numbers from 0 to 1, unless it is said."""
    return Continuous(name=name, lower=lower, upper=upper, **more)


def integer(name, lower, upper, **more):
    return Integer(name=name, lower=lower, upper=upper, **more)


def categorical(name, levels, **more):
    """Levels may be the letters of a word."""
    return Categorical(name=name, levels=tuple(levels), **more)


def ordinal(name, levels, **more):
    return Ordinal(name=name, levels=levels, **more)


def boolean(name, **more):
    return Boolean(name=name, **more)

"""Private randomness of a test, which follows from the test's name: a test that passed once passes always.

What the package draws is real only in the folders of `REAL`, whose tests are about it, and in processes that a test
starts. OpenDP takes no seed: a rounded Gaussian stands in for its discrete one.
"""

import re
import secrets
from hashlib import sha256

import numpy as np
import pytest

from noisegate.privacy import noise

REAL = "tests/privacy/", "tests/planted/", "tests/auditing/"
_PACKAGE = re.compile(r"packages/[\w-]+/(?=tests/)")
_TOKEN_BYTES = secrets.token_bytes
_RANDBITS = secrets.randbits
_DISCRETE = noise._discrete_gaussian


def room(node: str) -> str:
    """Returns the name of a test below its folder of tests, whichever package that belongs to."""
    return _PACKAGE.sub("", node)


class Randomness:
    """A plugin of pytest: seeds what draws private randomness before each test, and before each shared fixture."""

    def __init__(self):
        self._generator = np.random.default_rng()

    def pytest_runtest_setup(self, item):
        self._seed(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        shared = fixturedef.scope != "function"
        if shared:
            self._seed(f"{fixturedef.argname} of {request.node.nodeid}")
        value = yield
        if shared:
            self._seed(f"after {fixturedef.argname} of {request.node.nodeid}")
        return value

    def _seed(self, name):
        name = room(name)
        real = any(folder in name for folder in REAL)
        self._generator = np.random.default_rng(list(sha256(name.encode()).digest()))
        secrets.token_bytes = _TOKEN_BYTES if real else self._token_bytes
        secrets.randbits = _RANDBITS if real else self._randbits
        noise._discrete_gaussian = _DISCRETE if real else self._discrete_gaussian

    def _token_bytes(self, nbytes=None):
        return self._generator.bytes(32 if nbytes is None else nbytes)

    def _randbits(self, k):
        return int.from_bytes(self._generator.bytes(-(-k // 8))) >> (-k % 8)

    def _discrete_gaussian(self, size, noise_std):
        return np.rint(self._generator.normal(scale=noise_std, size=size)).astype(
            np.int64
        )

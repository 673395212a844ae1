"""The names that type checkers read are those that the package loads."""

import ast
from importlib.resources import files

import noisegate_evaluate


def test_the_stub_has_every_public_name_from_its_home():
    stub = (files("noisegate_evaluate") / "__init__.pyi").read_text("utf-8")
    homes = {
        name.asname: statement.module.removeprefix("noisegate_evaluate.")
        for statement in ast.parse(stub).body
        for name in statement.names
    }
    assert homes == noisegate_evaluate._HOMES

"""`noisegate sample --package`: records with their descriptions and the certificate, in one folder."""

import json

import pytest

from .conftest import argv


def test_a_package_holds_the_records_that_sample_writes(desk, fitted, cli):
    ended = cli(
        f"sample {fitted.out} -n 50 --package handout --license CC-BY-4.0 --seed 3"
    )
    assert ended.code == 0, ended.err
    assert ended.out == "", ended.err
    assert "share the whole folder" in " ".join(ended.err.split())
    assert cli(f"sample {fitted.out} -n 50 -o alone.csv --seed 3").code == 0
    folder = desk.folder / "handout"
    assert (folder / "synthetic.csv").read_bytes() == (
        desk.folder / "alone.csv"
    ).read_bytes()
    for name in ("certificate.json", "certificate.md"):
        assert (folder / name).read_bytes() == (fitted.out / name).read_bytes()
    assert json.loads((folder / "croissant.json").read_text())["license"] == "CC-BY-4.0"
    assert sorted(path.name for path in folder.iterdir())[3:] == [
        "datapackage.json",
        "synthetic.csv",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--out is missing"),
        (argv("-o a.csv --license CC0-1.0"), "--package DIR"),
        (argv("-o in/a.csv --package handout"), "name of a file"),
        (["--package", "data.csv"], "data.csv exists"),
        (argv("--package handout --where job=pilot"), "pilot"),
    ],
)
def test_what_cannot_be_packed_leaves_nothing(desk, fitted, cli, arguments, message):
    before = desk.listing()
    ended = cli(f"sample {fitted.out} -n 5", *arguments)
    assert ended.code == 2
    assert message in " ".join(ended.err.split())
    assert desk.listing() == before

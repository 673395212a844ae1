"""The table of bad input: one clear message, nothing spent, nothing left behind, no private value told."""

from pathlib import Path

import pytest

from noisegate.gate.sums import LocalEngine

from .conftest import CANARY, argv, refused, rows, small_disk

GOOD = "30,50.0,nurse,no"
LEGAL = {
    "one row": [GOOD],
    "constant column": ["30,50.0,nurse,yes", "30,51.0,nurse,no"] * 20,
    "all missing where allowed": [
        f"{age},,nurse,{answer}" for age in range(20, 40) for answer in ("no", "yes")
    ],
    "all NaN where allowed": [
        f"{age},NaN,nurse,{answer}" for age in range(20, 40) for answer in ("no", "yes")
    ],
    "one class": [row.rpartition(",")[0] + ",no" for row in rows(40)],
    "beyond the bounds": ["500,-1e300,nurse,no", "-500,inf,farmer,yes"] * 20,
}


@pytest.mark.parametrize("case", LEGAL)
def test_data_that_looks_odd_is_not_refused(desk, cli, case):
    # To refuse it would tell something about it.
    desk.write_rows(LEGAL[case])
    assert cli(*desk.fit()).code == 0
    ended = cli(f"sample {desk.out} -n 50 -o {desk.folder}/synthetic.csv")
    assert ended.code == 0
    assert len((desk.folder / "synthetic.csv").read_text().splitlines()) == 51
    assert desk.account().committed == 1


PLACES = {
    "a file as parent": "data.csv/model",
    "no such parent": "none/model",
    "a place of the system": "/proc/model",
}


@pytest.mark.parametrize("case", PLACES)
def test_what_cannot_be_written(desk, fitted, cli, case):
    path = PLACES[case]
    refused(
        desk, cli, path.partition("/")[0], "--out", arguments=desk.fit("--out", path)
    )
    for ending, option, words in (
        (".csv", "--out", argv(f"sample {fitted.out} -n 5 -o")),
        (".toml", "--out", argv(f"schema init {desk.data} -o")),
        (".html", "--page", argv(f"evaluate --synthetic {desk.data} --test {desk.data} --schema {desk.schema} --page")),
    ):  # fmt: skip
        refused(
            desk,
            cli,
            f"{option} {path}{ending}",
            arguments=[*words, f"{path}{ending}"],
        )
    desk.unspent()


ADDRESS = "https://example.org/a.csv"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            lambda desk: ["fit", ADDRESS, *desk.fit()[2:]],
            f"{ADDRESS}: records are read from files and folders, or",
        ),
        (
            lambda desk: ["plan", "--schema", ADDRESS, "--epsilon", "1"],
            f"{ADDRESS}: is an address",
        ),
        (
            lambda desk: ["verify", "gs://bucket/model"],
            "gs://bucket/model: is an address",
        ),
        (
            lambda desk: [*desk.fit(), "--out", "s3://bucket/model"],
            "--out s3://bucket/model: is an address",
        ),
        (
            lambda desk: [*desk.fit(), "--out", "a\nb"],
            r"--out 'a\nb' holds a control character",
        ),
        (
            lambda desk: [*argv("schema init data.csv -o"), "a\tb.toml"],
            r"'a\tb.toml' holds a control character",
        ),
    ],
)
def test_an_address_or_a_control_character_where_a_path_is_expected(
    desk, cli, arguments, message
):
    refused(desk, cli, message, arguments=arguments(desk))


def test_nothing_is_overwritten(desk, fitted, cli):
    for arguments in (
        desk.fit("--out", desk.data),
        argv(f"sample {fitted.out} -n 5 -o {desk.data}"),
        argv(f"schema init {desk.data} -o {desk.schema}"),
        ["demo", "--out", desk.folder],
    ):
        refused(desk, cli, "exists", arguments=arguments)
    desk.unspent()


def test_a_full_disk_is_found_before_anything_is_spent(desk, cli):
    before = desk.listing()
    with small_disk(100_000):
        ended = cli(*desk.fit())
    assert ended.code == 2
    assert "model.partial cannot be written" in ended.err
    assert "Nothing was spent" in ended.err
    assert desk.listing() == before
    desk.unspent()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_disk_that_fills_up_leaves_no_half_sample(desk, fitted, cli, ending):
    before = desk.listing()
    with small_disk(20_000):
        ended = cli(f"sample {fitted.out} -n 50000 -o synthetic.{ending}")
    assert ended.code == 2
    assert f"--out synthetic.{ending} cannot be written" in ended.err
    assert desk.listing() == before


FILES = [
    "certificate.json",
    "certificate.md",
    "release.safetensors",
    "generator.safetensors",
    "model.json",
]


def _edited(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("spoil", [Path.unlink, _edited])
@pytest.mark.parametrize("file", FILES)
def test_a_broken_model(desk, model, cli, file, spoil):
    spoil(model / file)
    refused(desk, cli, file, arguments=["verify", model])
    refused(desk, cli, file, arguments=argv(f"sample {model} -n 5 -o x.csv"))


def test_an_exhausted_budget_is_refused_with_the_figures(desk, cli):
    ended = refused(
        desk,
        cli,
        "'clinic'",
        "ε = 3",
        "4",
        "What remains",
        code=3,
        arguments=desk.fit(epsilon="4"),
    )
    assert "nothing was spent" in ended.err
    desk.unspent()


def test_faults_of_ours_keep_private_values_to_themselves(desk, cli, monkeypatch):
    def fail(*_):
        raise ValueError(f"cannot use {CANARY}")

    monkeypatch.setattr(LocalEngine, "sum", fail)
    refused(desk, cli, "ValueError", "NOISEGATE_TRACEBACK=1", code=1)
    desk.unspent()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "spark"], "must be local or ray"),
        (["--address", "head:6379"], "needs --engine ray"),
        (
            argv("--engine ray --address 127.0.0.1:1"),
            "no Ray cluster could be joined",
        ),
        (["--engine", "ray", "--resume"], "reads no records"),
    ],
)
def test_what_an_engine_cannot_do_is_refused_and_nothing_is_spent(
    options, message, desk, cli
):
    ended = cli(*desk.fit(*options))
    assert ended.code == 2
    assert message in " ".join(ended.err.split())
    assert desk.account().spent == 0
    assert not desk.out.exists()
    assert not list(desk.out.parent.glob("*.partial"))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("data.csv", "exists"),
        ("data.csv/trial", "not a folder"),
        ("none/trial", "none"),
    ],
)
def test_an_example_takes_a_new_folder_and_says_no_option_that_it_lacks(
    desk, cli, place, words
):
    path = desk.folder / place
    ended = refused(desk, cli, words, arguments=["example", str(path)])
    assert "--" not in ended.err

"""The table of bad input: one clear message, nothing spent, nothing left behind, no private value told."""

import resource
import shutil
import signal
import sqlite3
from contextlib import closing, contextmanager

import pytest

from noisegate.ledger import tables as ledger_tables

from .conftest import CANARY, HEADER, SCHEMA, refused, rows

GOOD = "30,50.0,nurse,no"


def _unspent(desk):
    account = desk.account()
    assert (account.spent, account.reserved, account.committed) == (0, 0, 0)
    assert CANARY.encode() not in desk.ledger.read_bytes()


def _without_file(desk):
    desk.data.unlink()


def _empty_file(desk):
    desk.data.write_bytes(b"")


def _no_header(desk):
    desk.data.write_text(f"30,50.0,{CANARY},no\n{GOOD}\n")


def _other_header(desk):
    desk.write_rows([f"{GOOD},{CANARY}"], header=f"{HEADER},email")


def _column_gone(desk):
    desk.write_rows(["30,50.0,nurse"], header="age,income,job")


def _wrong_type(desk):
    desk.write_rows([GOOD, f"{CANARY},50.0,nurse,no"])


def _not_whole(desk):
    desk.write_rows([GOOD, "39.5,50.0,nurse,no"])


def _missing_not_allowed(desk):
    desk.write_rows([",50.0,nurse,no"] * 20)


def _zero_rows(desk):
    desk.write_rows([])


def _unknown_level(desk):
    desk.write_rows([GOOD, GOOD, f"30,50.0,{CANARY},no"])


def _unknown_label(desk):
    desk.write_rows([GOOD, f"30,50.0,nurse,{CANARY}"])


def _ragged(desk):
    desk.write_rows([GOOD, f"30,{CANARY},50.0,nurse,no"])


def _not_text(desk):
    desk.data.write_bytes(HEADER.encode() + b"\n30,50.0,\xff\xfe" + CANARY.encode() + b",no\n")


def _folder_without_tables(desk):
    desk.data.unlink()
    desk.data.mkdir()
    (desk.data / "notes.txt").write_text(CANARY)


DATA = {
    "missing file": (_without_file, "data.csv", "check the path"),
    "empty file": (_empty_file, "data.csv", "empty"),
    "no header": (_no_header, "data.csv", "age, income, job, answer"),
    "extra column": (_other_header, "'email'", "ignore = "),
    "column gone": (_column_gone, "'answer'", "add it to the data"),
    "wrong type": (_wrong_type, "line 3", "'age'", "whole number", "--show-values", "schema"),
    "fraction in an integer column": (_not_whole, "line 3", "'age'", "whole number"),
    "all missing where none may be": (_missing_not_allowed, "line 2", "'age'", "missing = true"),
    "zero rows": (_zero_rows, "data.csv", "at least one record"),
    "unknown level": (_unknown_level, "line 4", "'job'", "3 levels", "--show-values", "add the level"),
    "unknown label": (_unknown_label, "line 3", "'answer'", "2 levels"),
    "a field too many": (_ragged, "data.csv"),
    "not UTF-8": (_not_text, "data.csv", "UTF-8"),
    "folder without tables": (_folder_without_tables, "data.csv", "*.csv"),
}


@pytest.mark.parametrize("case", DATA)
def test_data_that_does_not_fit(desk, cli, case):
    spoil, *says = DATA[case]
    spoil(desk)
    refused(desk, cli, *says)
    _unspent(desk)


@pytest.mark.parametrize("spoil", [_wrong_type, _unknown_level])
def test_a_private_value_is_told_on_request(desk, cli, spoil):
    spoil(desk)
    ended = cli(*desk.fit("--show-values"))
    assert ended.code == 2
    assert CANARY in ended.err
    _unspent(desk)


LEGAL = {
    "one row": [GOOD],
    "constant column": ["30,50.0,nurse,yes", "30,51.0,nurse,no"] * 20,
    "all missing where allowed": [f"{age},,nurse,{answer}" for age in range(20, 40) for answer in ("no", "yes")],
    "all NaN where allowed": [f"{age},NaN,nurse,{answer}" for age in range(20, 40) for answer in ("no", "yes")],
    "one class": [row.rpartition(",")[0] + ",no" for row in rows(40)],
    "beyond the bounds": ["500,-1e300,nurse,no", "-500,inf,farmer,yes"] * 20,
}


@pytest.mark.parametrize("case", LEGAL)
def test_data_that_looks_odd_is_notrefused(desk, cli, case):
    # To refuse it would tell something about it.
    desk.write_rows(LEGAL[case])
    assert cli(*desk.fit()).code == 0
    ended = cli("sample", desk.out, "-n", 50, "-o", desk.folder / "synthetic.csv")
    assert ended.code == 0
    assert len((desk.folder / "synthetic.csv").read_text().splitlines()) == 51
    assert desk.account().committed == 1


SCHEMAS = {
    "bounds reversed": (("lower = 18", "lower = 99"), "'age'", "99", "90"),
    "bounds infinite": (("upper = 100.0", "upper = inf"), "'income'", "inf", "finite"),
    "bound not a number": (("lower = 0.0", "lower = nan"), "'income'", "nan"),
    "unknown kind": (('kind = "integer"', 'kind = "intger"'), "'age'", "intger", "integer"),
    "unknown key": (("missing = true", "mising = true"), "'income'", "mising"),
    "label that is no column": (('label = "answer"', 'label = "answr"'), "answr"),
    "levels twice": (('["no", "yes"]', '["no", "no"]'), "'answer'", "'no'"),
    "not TOML": (("[columns.age]", "[columns.age"), "schema.toml"),
}


@pytest.mark.parametrize("case", SCHEMAS)
def test_a_schema_that_cannot_be(desk, cli, case):
    (old, new), *says = SCHEMAS[case]
    assert old in SCHEMA
    desk.schema.write_text(SCHEMA.replace(old, new))
    refused(desk, cli, *says)
    refused(desk, cli, *says, arguments=["schema", "check", desk.schema])
    refused(desk, cli, *says, arguments=["plan", "--schema", desk.schema, "--epsilon", 1])
    _unspent(desk)


def test_a_fit_without_a_schema_says_why(desk, cli):
    arguments = ["fit", desk.data, "--epsilon", 1, "--out", desk.out]
    refused(desk, cli, "--schema is required", "leak", "schema init", arguments=arguments)


OPTIONS = {
    "epsilon zero": (["--epsilon", "0"], "epsilon=0", "0.01 to 1000"),
    "epsilon negative": (["--epsilon=-1"], "epsilon=-1", "0.01 to 1000"),
    "epsilon NaN": (["--epsilon", "nan"], "epsilon=nan", "0.01 to 1000"),
    "epsilon too large": (["--epsilon", "1001"], "epsilon=1001", "0.01 to 1000", "no privacy left"),
    "epsilon infinite": (["--epsilon", "inf"], "epsilon=inf", "0.01 to 1000"),
    "epsilon no number": (["--epsilon", "one"], "--epsilon", "number"),
    "delta one half": (["--delta", "0.5"], "delta=0.5", "0.5"),
    "delta zero": (["--delta", "0"], "delta=0", "1e-12"),
    "delta NaN": (["--delta", "nan"], "delta=nan"),
    "unknown method": (["--method", "dp-mirf"], "dp-mirf", "dp-merf"),
    "unknown setting": (["--set", "frequency=5"], "frequency", "frequencies"),
    "setting without value": (["--set", "frequencies"], "frequencies", "NAME=VALUE"),
    "setting out of range": (["--set", "frequencies=0"], "frequencies=0", "positive"),
    "setting of another type": (["--set", "frequencies=many"], "frequencies='many'", "whole number"),
    "unknown fit option": (["--set", 'fit_options={"stepz": 3}'], "stepz"),
    "unknown adjacency": (["--adjacency", "swap"], "swap", "add-remove", "replace-one"),
    "replace-one without number": (["--adjacency", "replace-one"], "records=N"),
    "records zero": (["--records", "0"], "records=0", "positive"),
    "seed negative": (["--seed", "-1"], "--seed"),
    "unknown device": (["--device", "abacus"], "abacus", "cpu"),
    "unknown option": (["--epsylon", "1"], "--epsylon", "--epsilon"),
    "unknown data set": (["--dataset", "clinc"], "clinc", "register"),
    "other unit than registered": (["--unit", "person"], "person", "--unit"),
    "unsupported ledger": (["--ledger", "mysql://somewhere/db"], "mysql", "postgresql://"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_that_cannot_be(desk, cli, case):
    more, *says = OPTIONS[case]
    refused(desk, cli, *says, arguments=desk.fit(*more))
    _unspent(desk)


def test_the_number_of_records_is_checked_but_not_told(desk, cli):
    # The ledger has one adjacency for a data set.
    assert cli("ledger", "register", "public-size", "--epsilon", 3, "--adjacency", "replace-one",
               "--ledger", desk.ledger).code == 0  # fmt: skip
    more = ["--adjacency", "replace-one", "--records", "199", "--dataset", "public-size"]
    ended = refused(desk, cli, "records=199", arguments=desk.fit(*more))
    assert "200" not in ended.err
    _unspent(desk)


@pytest.mark.parametrize("verb", ["fit", "plan"])
def test_what_is_missing_is_named(desk, cli, verb):
    more = ["--out", desk.out] if verb == "fit" else []
    data = [desk.data] if verb == "fit" else []
    refused(desk, cli, "--epsilon", arguments=[verb, *data, "--schema", desk.schema, *more])


PLACES = {"a file as parent": "data.csv/model", "no such parent": "none/model", "a place of the system": "/proc/model"}


@pytest.mark.parametrize("case", PLACES)
def test_a_model_that_cannot_be_written(desk, cli, case):
    refused(desk, cli, "model", "--out", arguments=desk.fit("--out", PLACES[case]))
    _unspent(desk)


@pytest.mark.parametrize("case", PLACES)
def test_samples_that_cannot_be_written(desk, fitted, cli, case):
    out = f"{PLACES[case]}.csv"
    refused(desk, cli, f"--out {out}", arguments=["sample", fitted.out, "-n", 5, "-o", out])


@pytest.mark.parametrize("case", PLACES)
def test_a_schema_that_cannot_be_written(desk, cli, case):
    out = f"{PLACES[case]}.toml"
    refused(desk, cli, f"--out {out}", arguments=["schema", "init", desk.data, "-o", out])


@pytest.mark.parametrize("case", PLACES)
def test_a_page_that_cannot_be_written(desk, cli, case):
    out = f"{PLACES[case]}.html"
    tables = ["--synthetic", desk.data, "--test", desk.data, "--schema", desk.schema]
    refused(desk, cli, f"--page {out}", arguments=["evaluate", *tables, "--page", out])


ADDRESS = "https://example.org/a.csv"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (lambda desk: ["fit", ADDRESS, *desk.fit()[2:]], f"{ADDRESS}: records are read from files and folders, or"),
        (lambda desk: ["plan", "--schema", ADDRESS, "--epsilon", "1"], f"{ADDRESS}: is an address"),
        (lambda desk: ["verify", "gs://bucket/model"], "gs://bucket/model: is an address"),
        (lambda desk: [*desk.fit(), "--out", "s3://bucket/model"], "--out s3://bucket/model: is an address"),
        (lambda desk: [*desk.fit(), "--out", "a\nb"], r"--out 'a\nb' holds a control character"),
        (
            lambda desk: ["schema", "init", "data.csv", "-o", "a\tb.toml"],
            r"'a\tb.toml' holds a control character",
        ),
    ],
)
def test_an_address_or_a_control_character_where_a_path_is_expected(desk, cli, arguments, says):
    refused(desk, cli, says, arguments=arguments(desk))


def test_a_name_in_the_header_that_is_too_long(desk, cli):
    desk.write_rows(rows(20), header=f"age,{'y' * 200_000},job,answer")
    refused(desk, cli, "a name may have 131,072 characters at most")


def test_nothing_is_overwritten(desk, fitted, cli):
    for arguments in (
        desk.fit("--out", desk.data),
        ["sample", fitted.out, "-n", 5, "-o", desk.data],
        ["schema", "init", desk.data, "-o", desk.schema],
        ["demo", "--out", desk.folder],
    ):
        refused(desk, cli, "exists", arguments=arguments)
    _unspent(desk)


@contextmanager
def _small_disk(limit):
    """As on a full disk: the system refuses, once a file reaches the limit."""
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, kept[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_full_disk_is_found_before_anything_is_spent(desk, cli):
    before = desk.listing()
    with _small_disk(100_000):
        ended = cli(*desk.fit())
    assert ended.code == 2
    assert "model.partial cannot be written" in ended.err
    assert "Nothing was spent" in ended.err
    assert desk.listing() == before
    _unspent(desk)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_disk_that_fills_up_leaves_no_half_sample(desk, fitted, cli, ending):
    before = desk.listing()
    with _small_disk(20_000):
        ended = cli("sample", fitted.out, "-n", 50_000, "-o", f"synthetic.{ending}")
    assert ended.code == 2
    assert f"--out synthetic.{ending} cannot be written" in ended.err
    assert desk.listing() == before


FILES = ["certificate.json", "certificate.md", "release.safetensors", "generator.safetensors", "model.json"]


def _removed(path):
    path.unlink()


def _emptied(path):
    path.write_bytes(b"")


def _truncated(path):
    path.write_bytes(path.read_bytes()[:-20])


def _edited(path):
    content = bytearray(path.read_bytes())
    place = len(content) // 2
    content[place] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("spoil", [_removed, _emptied, _truncated, _edited])
@pytest.mark.parametrize("file", FILES)
def test_a_broken_model(desk, model, cli, file, spoil):
    spoil(model / file)
    refused(desk, cli, file, arguments=["verify", model])
    refused(desk, cli, file, arguments=["sample", model, "-n", 5, "-o", "x.csv"])


def test_a_model_that_is_none(desk, model, cli):
    for place in (desk.folder / "nowhere", desk.data, desk.folder):
        refused(desk, cli, str(place), arguments=["verify", place])
    (model / "model.json").write_text("[1, 2]")
    refused(desk, cli, "model.json", arguments=["verify", model])
    shutil.rmtree(model)
    refused(desk, cli, "model", arguments=["sample", model, "-n", 5, "-o", "x.csv"])


LEDGER_VERBS = [["show"], ["history", "clinic"], ["check"], ["register", "other", "--epsilon", "1"]]


def _no_ledger_verb(desk, cli, *says):
    refused(desk, cli, *says)
    for verb in LEDGER_VERBS:
        refused(desk, cli, *says, arguments=["ledger", *verb, "--ledger", desk.ledger])


def test_a_corrupt_ledger(desk, cli):
    desk.ledger.write_bytes(b"no database" * 1000)
    _no_ledger_verb(desk, cli, "ledger.db")


def test_a_ledger_that_was_tampered_with(desk, cli):
    with closing(sqlite3.connect(desk.ledger)) as connection, connection:
        connection.execute("UPDATE noisegate_entries SET payload = replace(payload, '3', '9')")
    _no_ledger_verb(desk, cli, "tampered", "row 1", "restore it from a backup")


def test_a_locked_ledger(desk, cli, monkeypatch):
    monkeypatch.setattr(ledger_tables, "LOCK_SECONDS", 0.2)
    with closing(sqlite3.connect(desk.ledger, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        refused(desk, cli, "ledger.db", "locked")
        other.execute("ROLLBACK")
    _unspent(desk)


def test_a_ledger_that_is_not_there(desk, cli):
    refused(desk, cli, "none.db", "register", arguments=desk.fit("--ledger", "none.db"))


def test_a_ledger_that_is_a_folder(desk, cli):
    refused(desk, cli, str(desk.folder), arguments=["ledger", "show", "--ledger", desk.folder])


def test_an_exhausted_budget_is_refused_with_the_figures(desk, cli):
    ended = refused(desk, cli, "'clinic'", "ε = 3", "4", "What remains", code=3, arguments=desk.fit(epsilon="4"))
    assert "nothing was spent" in ended.err
    _unspent(desk)


def test_faults_of_ours_keep_private_values_to_themselves(desk, cli, monkeypatch):
    from noisegate.gate.sums import LocalEngine

    def fail(*_):
        raise ValueError(f"cannot use {CANARY}")

    monkeypatch.setattr(LocalEngine, "sum", fail)
    refused(desk, cli, "ValueError", "NOISEGATE_TRACEBACK=1", code=1)
    _unspent(desk)


def test_a_demo_that_cannot_be_leaves_nothing(desk, cli):
    refused(desk, cli, "epsilon=0", arguments=["demo", "--out", "demo", "--epsilon", "0"])

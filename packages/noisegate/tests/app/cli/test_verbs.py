"""Every verb, run for real: what it says to people, what it says to programs."""

import json
import subprocess

from .conftest import HEADER, PROGRAM, SCHEMA, argv, environment, rows


def _plain(text):
    """Whether `text` is fit for a file: no terminal codes, no markup, no line beyond 80 characters."""
    return (
        "\x1b" not in text
        and "[/" not in text
        and all(len(line) <= 80 for line in text.splitlines())
    )


def test_a_delta_that_is_too_large_for_the_records_is_warned_of(desk, cli):
    plan = argv(f"plan --schema {desk.schema} --epsilon 1 --records 200")
    ended = cli(*plan, "--delta", 0.005, "--json")
    assert "warning: delta=0.005 is at least 1/(number of records) = 0.005" in " ".join(
        ended.err.split()
    )
    assert ended.json
    assert cli(*plan, "--delta", 0.0049).err == ""


def test_evaluate_says_that_its_figures_are_not_private(desk, fitted, cli):
    desk.write_rows(rows(150, seed=5))
    assert cli(f"sample {fitted.out} -n 150 -o synthetic.csv").code == 0
    arguments = argv(
        f"evaluate --synthetic synthetic.csv --test {desk.data} --schema {desk.schema}"
    )
    ended = cli(*arguments)
    assert ended.code == 0
    assert _plain(ended.out)
    assert "NOT covered" in " ".join(ended.out.replace("│", " ").split())
    ended = cli(*arguments, "--train", fitted.data, "--page", "page.html", "--json")
    assert "NOT covered" in ended.json["caveat"]
    assert set(ended.json) >= {
        "marginals",
        "marginals_floor",
        "downstream",
        "downstream_ceiling",
    }
    assert "Private: do not publish" in (desk.folder / "page.html").read_text("utf-8")
    assert not [name for name in desk.listing() if name.startswith(".")]


def test_the_ledger_verbs(desk, cli):
    ledger_option = ["--ledger", desk.ledger]
    assert cli(*desk.fit()).code == 0
    shown = cli("ledger", "show", *ledger_option)
    assert shown.code == 0
    assert _plain(shown.out.replace(str(desk.folder), ""))
    for words in ("clinic", "add-remove", "spent ε"):
        assert words in shown.out
    (account,) = cli("ledger show clinic", *ledger_option, "--json").json["accounts"]
    assert account["committed"] == 1
    assert account["reserved"] == 0
    assert account["voided"] == 0
    assert 0.99 < account["spent"] <= 1
    entries = cli("ledger history clinic", *ledger_option, "--json").json["entries"]
    assert [entry["kind"] for entry in entries] == [
        "register",
        "reserve",
        "confirm",
        "commit",
    ]
    history = cli("ledger history clinic", *ledger_option)
    assert _plain(history.out)
    assert "dp-merf" in history.out
    assert cli("ledger", "check", *ledger_option, "--json").json["entries"] == 4
    assert "whole" in cli("ledger", "check", *ledger_option).out
    assert cli(*desk.fit("--out", "second", epsilon="2.9")).code == 3
    ended = cli("ledger register clinic --epsilon 9", *ledger_option)
    assert ended.code == 2
    assert "registered already" in ended.err


def test_a_full_output_is_a_user_error(desk):
    command = [*PROGRAM, "schema", "check", str(desk.schema)]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
    assert ended.returncode == 2
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_json_is_ascii_so_that_every_locale_can_print_it(desk, cli):
    desk.schema.write_text(SCHEMA.replace("farmer", "Gärtner"), encoding="utf-8")
    ended = cli(f"schema check {desk.schema} --json")
    assert ended.out.isascii()
    assert "Gärtner" in json.dumps(ended.json, ensure_ascii=False)


def parts(desk):
    folder = desk.folder / "parts"
    folder.mkdir()
    lines = rows(200)
    for name, part_lines in (("a.csv", lines[:100]), ("b.csv", lines[100:])):
        (folder / name).write_text("\n".join([HEADER, *part_lines]) + "\n")
    return folder


def test_the_files_of_a_folder_are_told(desk, cli):
    folder = parts(desk)
    sentence = f"{folder} is read as one table of 2 files: a.csv, b.csv"
    fit = ["fit", folder, *desk.fit()[2:]]
    drafted = argv(f"schema init {folder} -o {desk.folder}/drafted.toml")
    kinds = "age=integer,income=continuous,job=categorical,answer=categorical"
    command = argv(
        f"schema discover {folder} --epsilon 5 --kinds {kinds} -o {desk.folder}/found.toml"
    )
    for arguments in (fit, drafted, command):
        ended = cli(*arguments)
        assert ended.code == 0, ended.err
        assert sentence in ended.err.replace("\n", " ").replace(
            "  ", " "
        ) or sentence in ended.err.replace("\n", "")

"""Three silos on the command line: a published plan, a release of each, one merge."""

import pytest

from noisegate.errors import installed

from .conftest import SCHEMA, argv, refused, rows

SILOS = ("north", "south", "west")
ONE_ROUND = ["--set", "cells=128"]
"""A cell for each age: there is no histogram to cut others from, and all is asked at once."""


@pytest.fixture
def parts(desk):
    """The desk with a file for each silo beside it, without incomes."""
    for seed, name in enumerate(SILOS):
        lines = [
            ",".join(row.split(",")[:1] + row.split(",")[2:])
            for row in rows(60, seed=seed)
        ]
        (desk.folder / f"{name}.csv").write_text(
            "\n".join(["age,job,answer", *lines]) + "\n"
        )
    start = SCHEMA.index("[columns.income]")
    end = SCHEMA.index("[columns.job]")
    desk.schema.write_text(SCHEMA[:start] + SCHEMA[end:])
    return desk


def test_the_cost_of_a_release_is_booked(parts, cli):
    book = argv("--dataset clinic --ledger ledger.db")
    command = [
        *argv("release north.csv --schema schema.toml --epsilon 1 --silo north"),
        *ONE_ROUND,
    ]
    assert cli(*command, *book, "--out", "north").code == 0
    assert 0.999 < parts.account().spent <= 1
    refused(parts, cli, "exists", arguments=[*command, *book, "--out", "north"])
    assert parts.account().spent <= 1


def test_options_that_do_not_go_with_a_plan(parts, cli):
    assert (
        cli(
            "plan --schema schema.toml --epsilon 1 --save plan.json",
            *ONE_ROUND,
        ).code
        == 0
    )
    command = argv("release north.csv --plan plan.json --silo north --out north")
    refused(
        parts,
        cli,
        "--schema: the published plan plan.json",
        arguments=[*command, "--schema", "schema.toml"],
    )
    refused(
        parts,
        cli,
        "--set cells=3: the published plan",
        arguments=[*command, "--set", "cells=3"],
    )
    refused(
        parts,
        cli,
        "--adjacency: the published plan",
        arguments=[*command, "--adjacency", "add-remove"],
    )
    refused(
        parts,
        cli,
        "nowhere",
        "does not exist",
        arguments=[*command, "--after", "nowhere"],
    )
    assert cli(*command, "--epsilon", 2).code == 0
    other = argv("release south.csv --plan plan.json --silo south --out south")
    assert cli(*other).code == 0
    certificate = cli("merge north south --out model --json").json["certificate"]
    assert certificate["guarantee"]["epsilon"] == 2


@pytest.mark.skipif(not installed("cryptography"), reason="masks need the extra silos")
def test_a_secure_sum(parts, cli):
    (parts.folder / "keys").mkdir()
    assert (
        cli(
            "plan --schema schema.toml --epsilon 1 --save plan.json",
            *ONE_ROUND,
        ).code
        == 0
    )
    for name in SILOS:
        output = cli(f"key {name} --out {name}.key --json").json
        (parts.folder / output["public"]).rename(parts.folder / "keys" / f"{name}.pub")
    for name in SILOS:
        secure = argv(f"--secure-sum keys --key {name}.key")
        assert (
            cli(
                f"release {name}.csv --plan plan.json --silo {name} --out {name}",
                *secure,
            ).code
            == 0
        )
    refused(
        parts,
        cli,
        "the share of west is missing",
        arguments=["merge", *SILOS[:2], "--out", "model"],
    )
    output = cli("merge", *SILOS, "--out", "model", "--json").json["certificate"][
        "silos"
    ]
    assert output["colluding"] == 1
    assert cli("verify", "north").code == cli("verify", "model").code == 0
    again = argv("release north.csv --plan plan.json --silo north --out again")
    refused(
        parts,
        cli,
        "has answered this sum before",
        arguments=[*again, *secure[:3], "north.key"],
    )
    refused(parts, cli, "go together", arguments=[*again, "--key", "north.key"])
    refused(parts, cli, "the key is of the silo 'west'", arguments=[*again, *secure])
    refused(parts, cli, "exists", arguments=argv("key north --out north.key"))

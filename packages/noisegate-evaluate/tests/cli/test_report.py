"""`noisegate report`: the page that fit has put into the folder, made again, and the private one."""

import os
from itertools import pairwise

from noisegate.errors import OptionError

from .conftest import rows


def test_fit_puts_the_public_page_into_the_folder_and_report_makes_the_same(
    desk, fitted, cli
):
    ended = cli("report", fitted.out, "-o", "pages")
    assert ended.code == 0, ended.err
    assert "May be published: pages/public.html" in ended.out
    assert (desk.folder / "pages" / "public.html").read_bytes() == (
        fitted.out / "public.html"
    ).read_bytes()
    verified = cli("verify", fitted.out)
    assert verified.code == 0
    assert "Not covered" not in verified.out
    assert "public.html is not part" in verified.out


def test_real_records_make_a_private_page_beside_it(desk, fitted, cli):
    public = (fitted.out / "public.html").read_bytes()
    desk.write_rows(rows(80, seed=5))
    asked = ["report", fitted.out, "-o", "pages", "--test", desk.data]
    first = cli(*asked)
    assert first.code == 0, first.err
    assert "PRIVATE, keep it: pages/private.html" in first.out
    private = (path := desk.folder / "pages" / "private.html").read_bytes()
    again = cli(*asked, "--train", fitted.data, "--json")
    assert set(again.json) == {"public", "private", "evaluation"}
    assert "NOT covered" in again.json["evaluation"]["caveat"]
    assert path.read_bytes() != private
    assert os.name == "nt" or not path.stat().st_mode & 0o077
    assert (desk.folder / "pages" / "public.html").read_bytes() == public


def test_the_page_of_an_evaluation_has_title_owner_and_purpose(desk, cli):
    desk.write_rows(rows(80, seed=5))
    evaluate = "evaluate", "--synthetic", desk.data, "--test", desk.data
    evaluate += "--schema", desk.schema, "--title", "A survey", "--purpose", "Teaching"
    refused = cli(*evaluate)
    assert refused.code == 2
    assert "--title stands on a page" in refused.err
    ended = cli(*evaluate, "--page", "page.html")
    assert ended.code == 0, ended.err
    page = (desk.folder / "page.html").read_text("utf-8")
    assert "<h1>A survey</h1>" in page
    assert "Purpose: Teaching" in page


def test_what_cannot_be_done_is_said_in_a_line(desk, fitted, cli):
    before = desk.listing()
    for arguments, words in (
        (["none", "-o", "pages"], "none"),
        ([fitted.out, "-o", "pages", "--test", "nowhere.csv"], "nowhere.csv"),
        (
            [
                fitted.out,
                "-o",
                "pages",
                "--test",
                fitted.data,
                "--classifiers",
                "magic",
            ],
            "magic",
        ),
        ([fitted.out], "--out"),
    ):
        ended = cli("report", *arguments)
        assert ended.code == 2, arguments
        assert words in " ".join(ended.err.split()), ended.err
        assert "Traceback" not in ended.err
    assert desk.listing() == before


def test_a_model_whose_page_cannot_be_made_is_whole(desk, cli, monkeypatch):
    def fails(*_):
        raise OptionError("no room")

    monkeypatch.setattr("noisegate_evaluate.pages.add_public_page", fails)
    ended = cli(*desk.fit())
    assert ended.code == 0
    assert "has no page: no room" in " ".join(ended.err.split())
    assert cli("verify", desk.out).code == 0
    assert not desk.out.with_name("model.partial").exists()


def test_a_fit_whose_records_rarely_keep_the_rules_ends_and_says_so(
    desk, cli, monkeypatch
):
    """Ten equal columns in a chain, and noise that hides how they go together: 1 of 10! records keeps it."""
    monkeypatch.setattr("noisegate_evaluate.pages._MAX_CANDIDATES", 2**14)
    monkeypatch.setattr("noisegate.models.rejection.PROBE_CANDIDATES", 2**14)
    names = [f"c{number}" for number in range(10)]
    columns = "".join(
        f'[columns.{name}]\nkind = "integer"\nlower = 0\nupper = 999\n'
        for name in names
    )
    rules = "".join(
        f'[[constraints]]\nrule = "{low} <= {high}"\n' for low, high in pairwise(names)
    )
    (desk.folder / "chain.toml").write_text(columns + rules, encoding="utf-8")
    lines = [",".join([str(37 * row % 1000)] * len(names)) for row in range(60)]
    (desk.folder / "chain.csv").write_text(
        "\n".join([",".join(names), *lines, ""]), encoding="utf-8"
    )
    ended = cli(
        "fit",
        "chain.csv",
        "--schema",
        "chain.toml",
        "--epsilon",
        "0.1",
        "--records",
        "60",
        "--out",
        "chain",
    )
    assert ended.code == 0, ended.err
    assert "Verdict: noise" in ended.out
    assert "satisfy the rules of the schema" in " ".join(ended.out.split())
    page = " ".join((desk.folder / "chain" / "public.html").read_text("utf-8").split())
    assert "Rules that the model often breaks" in page
    assert "c0 &lt;= c1" in page
    assert "Of 16,384 records that the model drew for this page only" in page
    refused = cli("sample", "chain", "-n", "10000", "-o", "chain-sample.csv")
    assert refused.code == 2
    assert "keep" not in refused.out
    assert not (desk.folder / "chain-sample.csv").exists()
    message = " ".join(refused.err.split())
    assert "the constraints of the schema: of" in message
    assert "rejects" in message
    assert "10,000 records" in message

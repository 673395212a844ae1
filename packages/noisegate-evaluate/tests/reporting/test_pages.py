"""The two pages: what they say, what they follow from, and where they are refused."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from noisegate import Schema, export, fit, load, report, synthesize
from noisegate.errors import DataError, ModelError, OptionError
from noisegate.schema import Boolean, Integer
from noisegate_evaluate import CAVEAT
from noisegate_evaluate.reporting.promise import tradeoff

from .conftest import FEW, SCHEMA, rows, text


def test_the_public_page_follows_from_the_model_alone(model, pages, tmp_path):
    folder = model.save(tmp_path / "model")
    made = [
        report(folder, out=tmp_path / "alone"),
        report(load(folder), out=tmp_path / "loaded", test=rows(7, 50)),
        report(
            str(folder), out=tmp_path / "other", test=rows(8, 90), train=rows(9, 60)
        ),
    ]
    assert {one.public.read_bytes() for one in made} == {pages.public.read_bytes()}
    assert made[0].private is made[0].evaluation is None
    assert made[0].to_frames() == {} != made[1].to_frames()
    assert made[1].private.read_bytes() != made[2].private.read_bytes()


def test_the_public_page_says_what_is_promised_and_what_was_asked(model, pages):
    shown = text(pages.public)
    certificate = model.certificate
    right = tradeoff(certificate).right
    assert 0.5 < right < 1
    assert f"at most {-int(-100 * right // 1)} of 100" in shown
    assert certificate.digest() in shown
    assert "(2, 1e-05)-differential privacy" in shown
    for event in certificate.events:
        assert event.name in shown
    assert "noisegate verify MODEL" in shown
    assert "not recorded in a ledger" in shown
    assert CAVEAT not in shown


def test_the_private_page_says_so_first_and_last(pages):
    shown = text(pages.private)
    assert shown.index("Private: do not publish") < shown.index(
        "Synthetic against real", 60
    )
    assert shown.endswith(CAVEAT)
    assert "equal to one of them in every value" in shown


def test_every_column_is_there_however_many_there_are(wide, tmp_path):
    names = [f"column number {place}" for place in range(200)]
    schema = Schema(tuple(Boolean(name=name) for name in names))
    table = pa.table(
        {
            name: [place % (number + 2) == 0 for place in range(60)]
            for number, name in enumerate(names)
        }
    )
    model = synthesize(table, schema=schema, epsilon=1.0, pairs="none", **FEW)
    pages = [report(model, out=tmp_path / "wide").public, wide.public, wide.private]
    for page, count in zip(pages, (200, 60, 60), strict=True):
        assert page.stat().st_size < (305_000 if count == 60 else 5e6)
        assert set(names[:count]) <= set(
            re.findall(r"<h3>(.*?)</h3>", page.read_text("utf-8"))
        )


def test_more_columns_than_a_map_has_room_for_are_counted(wide, monkeypatch):
    monkeypatch.setattr("noisegate_evaluate.reporting.private._MAX_PAIRED", 24)
    shown = text(wide.again())
    assert "24 of 60 columns are shown: the label and those that differ most." in shown
    assert "The numbers: pairs of columns (the 100 of 276 that differ most)" in shown


def test_whoever_answers_for_a_page_stands_at_its_head(model, pages, tmp_path):
    signed = report(
        model,
        out=tmp_path / "pages",
        test=rows(1),
        title="A <survey>",
        owner="Office & sons",
        purpose="<b>Teaching",
    )
    head = "A &lt;survey&gt; Owner: Office &amp; sons Purpose: &lt;b&gt;Teaching Page of 20"
    for page in map(text, (signed.public, signed.private)):
        assert head in page
    assert "Page of 20" in text(pages.private)
    for words in ("Page of 20", "Owner:", "Purpose:"):
        assert words not in text(pages.public)
    for wrong in ("", "two\nlines", "x" * 501, 7):
        with pytest.raises(
            OptionError,
            match=r"owner=.* cannot be recorded; give one line of text, at most 500 ",
        ):
            report(model, out=tmp_path / "none", owner=wrong)


def test_what_the_owner_said_at_the_fit_stands_on_every_page_of_the_model(tmp_path):
    said = {"title": "A survey", "owner": "Data Office", "purpose": "Teaching"}
    folder = tmp_path / "model"
    fit(rows(0), schema=SCHEMA, epsilon=2.0, out=folder, **said, **FEW)
    pages = report(folder, out=tmp_path / "pages", test=rows(1))
    head = "A survey Owner: Data Office Purpose: Teaching "
    assert f"{head}A synthetic copy of a table of 5 columns" in text(pages.public)
    assert f"{head}Page of 20" in text(pages.private)
    # It follows from the model alone, so it has no date.
    assert pages.public.read_bytes() == (folder / "public.html").read_bytes()
    other = report(folder, out=tmp_path / "other", owner="Board").public
    assert "A survey Owner: Board Purpose: Teaching Page of 20" in text(other)
    left = export(folder, nist=tmp_path / "sheet.md", fields={"name": "Other"})
    assert not {"name", "data_curators", "intended_use"} & set(left)
    sheet = (tmp_path / "sheet.md").read_text("utf-8")
    assert "800-226: Other" in sheet
    assert "Published by: Data Office." in sheet


def test_the_page_says_whose_records_are_protected(model, pages, tmp_path):
    assert (
        "One record is protected. If a person has several records, the promise for "
        "that person is weaker: k records cost k times ε; two cost ε = 4."
    ) in text(pages.public)
    table = pa.table({"ill": [True, False] * 100, "patient": [*range(100)] * 2})
    schema = Schema([Boolean(name="ill")])
    of_persons = synthesize(
        table,
        schema=schema,
        epsilon=1.0,
        unit_column="patient",
        contributions=3,
    )
    shown = text(report(of_persons, out=tmp_path / "persons").public)
    assert (
        "All records of one patient are protected together, up to 3. "
        "Further records were not used."
    ) in shown
    assert "guesses whether one patient took part can be right" in shown
    table = table.drop_columns("patient")
    household = synthesize(table, schema=schema, epsilon=1.0, unit="household")
    shown = text(report(household, out=tmp_path / "household").public)
    assert "One household is protected, where each has one record." in shown


def test_counts_that_the_fit_did_not_see_score_the_copy_in_public(model, tmp_path):
    assert "did not see" not in text(report(model, out=tmp_path / "without").public)
    bought = synthesize(rows(0), schema=SCHEMA, epsilon=50.0, report_share=0.3, **FEW)
    assert "unfitted" in {event.name for event in bought.certificate.events}
    shown = text(report(bought.save(tmp_path / "model"), out=tmp_path / "pages").public)
    agree, cells = map(
        int,
        re.search(
            r"(\d+) of (\d+) cells agree within noise and sampling error\. About", shown
        ).groups(),
    )
    # Four cells of age, five of a number that may be missing, four levels, four of dates: each with two classes.
    assert cells == 2 * (4 + 5 + 4 + 4)
    assert cells / 4 < agree <= cells


def test_what_cannot_be_done_is_refused_before_anything_is_written(model, tmp_path):
    folder = model.save(tmp_path / "model")
    before = sorted(folder.iterdir())
    with pytest.raises(OptionError, match="train without test"):
        report(model, out=tmp_path / "pages", train=rows(0))
    with pytest.raises(
        OptionError, match="is a model folder, which is made to be shared"
    ):
        report(model, out=folder, test=rows(1))
    with pytest.raises(DataError, match="age"):
        report(model, out=tmp_path / "pages", test=pa.table({"x": [1]}))
    with pytest.raises(ModelError, match="does not exist"):
        report(tmp_path / "none", out=tmp_path / "pages")
    with pytest.raises(OptionError, match="model=dict: expected the path"):
        report({}, out=tmp_path / "pages")
    with pytest.raises(OptionError, match="cannot be written"):
        report(model, out=tmp_path / "none" / "pages")
    assert sorted(folder.iterdir()) == before
    assert not (tmp_path / "pages").exists()


def test_a_page_in_the_model_folder_does_not_hide_that_it_holds(model, tmp_path):
    folder = model.save(tmp_path / "model")
    assert report(folder, out=folder).public == folder / "public.html"
    assert load(folder).certificate.check() <= 2.0


def test_a_classifier_has_a_public_page_and_no_private_one(tmp_path):
    folder = Path(__file__).parents[4] / "tests" / "golden" / "models" / "llm"
    shown = text(report(folder, out=tmp_path / "pages").public)
    assert "A classifier that was trained under differential privacy" in shown
    assert "Single columns" not in shown
    with pytest.raises(OptionError, match="a classifier draws no records"):
        report(folder, out=tmp_path / "pages", test=rows(1))


@pytest.fixture(scope="module")
def survey_pages(tmp_path_factory):
    """Pages of a survey with weights, by name."""
    schema = Schema(
        [
            Integer(name="weight", lower=0, upper=50),
            Integer(name="age", lower=0, upper=99),
            Boolean(name="ill"),
        ],
        weights="weight",
    )
    random = np.random.default_rng(0)
    is_ill = random.random(2_000) < 0.3
    table = pa.table(
        {
            "weight": np.where(is_ill, 40, 10),
            "age": random.integers(0, 100, 2_000),
            "ill": is_ill,
        }
    )
    model = synthesize(table, schema=schema, epsilon=3.0, **FEW)
    return report(model, out=tmp_path_factory.mktemp("survey"), test=table)


def test_the_public_page_has_shares_of_the_population_with_intervals(survey_pages):
    shown = text(survey_pages.public)
    # Of the records 30 % are ill; weighted, 63 %.
    assert re.search(r"ill = True 6[0-6] % [56]\d % to [67]\d %", shown)
    assert "The column weight holds survey weights" in shown


def test_the_private_page_has_them_beside_the_real_ones(survey_pages):
    shown = text(survey_pages.private)
    assert "Shares and means weighted by weight" in shown
    assert re.search(r"ill = True 0\.63\d* 0\.\d+", shown)


def shown_findings(page):
    """Returns the rows of the table that says what the copy is good for; none without."""
    found = re.search(
        r'<section class="findings">.*?</section>', page.read_text("utf-8"), re.DOTALL
    )
    if found is None:
        return []
    cells = r"<th scope=\"row\">([^<]*)</th><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td>"
    return [tuple(map(unescape, row)) for row in re.findall(cells, found[0])]


def test_pages_say_what_the_copy_is_good_for(model, pages):
    for page, verdict in (
        (pages.public, model.verdict),
        (pages.private, pages.evaluation.verdict),
    ):
        rows_ = [
            (finding.question, finding.answer, finding.detail)
            for finding in verdict.findings
        ]
        assert shown_findings(page) == rows_ != []


def test_a_model_of_before_findings_has_a_page_without_them(model, tmp_path):
    old = replace(model.summary, verdict=replace(model.verdict, findings=()))
    page = report(replace(model, summary=old), out=tmp_path).public
    assert shown_findings(page) == []
    assert "good for" not in page.read_text("utf-8")


def test_the_verdict_and_the_page_state_one_number_of_records(model, pages):
    stated = re.findall(r"about ([\d,]+)(?= records|</dd>)", pages.public.read_text())
    assert len(stated) == 2, stated
    assert len(set(stated)) == 1, stated
    assert stated[0] == f"{round(model.verdict.figures['records']):,}"

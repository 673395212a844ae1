"""`noisegate export`: statements for a registry and for reviewers, of every kind of model, in the owner's words too."""

from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from jsonschema import Draft7Validator

from noisegate import Gate, Pairwise, Schema, export, load, merge, release
from noisegate.errors import OptionError
from noisegate.methods.linked import Linked
from noisegate.schema import Boolean

from ..metrics.test_links import SCHEMA as LINKED
from ..metrics.test_links import made as families

MODELS = Path(__file__).parents[4] / "tests" / "golden" / "models"
FORM = yaml.safe_load(
    Path(__file__).with_name("deployments-schema.yaml").read_text(encoding="utf-8")
)
OWNER = {"name": 'Wards: "night" & day # 1', "data_curators": ["Ministry of Health", "Registry"],
         "intended_use": "Teaching", "data_product_region": "Norway", "publication_date": "2026-03-01",
         "data_product_sector": "Healthcare", "access_control": "Two people: one machine",
         "justification": "Set by the board", "sources": "https://example.org/wards",
         "registry_authors": ["A. Author"]}  # fmt: skip


def merged():
    ill = pa.table({"ill": [True, False] * 200})
    asked = {
        "schema": Schema([Boolean(name="ill")]),
        "method": Pairwise(cells=128),
        "epsilon": 1.0,
    }
    return merge(
        [release(ill, silo=name, **asked) for name in ("north", "south")],
        stated_by="the ministry",
    )


MADE = {
    "table": (lambda: MODELS / "pairwise-units", "Synthetic data", "Central", "n: integer, 0 to 20; may be missing"),
    "images": (lambda: MODELS / "joint", "Synthetic data", "Central", "images of 8 × 8 pixels"),
    "linked": (lambda: Linked(fit_options={"steps": 3}).fit(Gate(families(), schema=LINKED, epsilon=1.0)),
               "Synthetic data", "Central", "visits.day: integer, 0 to 99"),
    "silos": (merged, "Synthetic data", "Federated", "ill: boolean, yes or no"),
    "marginals": (lambda: load(MODELS / "aim"), "Synthetic data", "Central", "G-17"),
    "classifier": (lambda: MODELS / "llm", "Machine learning model", "Central", "G-19"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MADE)
def test_an_entry_is_of_the_registry_s_schema_and_says_what_the_certificate_does(
    tmp_path, kind
):
    make, product, trust, told = MADE[kind]
    model = make()
    for fields in ({}, OWNER):
        path = tmp_path / f"entry_{len(fields)}.yaml"
        sheet = tmp_path / f"{len(fields)}.md"
        made = export(model, registry=path, nist=sheet, fields=fields)
        assert made == tuple(name for name in OWNER if name not in fields)
        text = path.read_text(encoding="utf-8")
        page = sheet.read_text(encoding="utf-8")
        entry = yaml.safe_load(text)
        checker = Draft7Validator(FORM, format_checker=Draft7Validator.FORMAT_CHECKER)
        assert [error.message for error in checker.iter_errors(entry)] == []
        assert all(
            getattr(token, "style", None) in (None, "|", '"', "'")
            for token in yaml.scan(text)
        )
        assert (
            ("TO BE FILLED IN" in text) == ("TO BE FILLED IN" in page) == (not fields)
        )
        deployment = entry["deployment"]
        assert deployment["basic"]["data_product_type"] == product
        assert told in text
        assert deployment["deployment_model"]["model_name"] == trust
        certificate = (
            load(model) if isinstance(model, Path) else model
        ).release.certificate
        stated = {"epsilon": certificate.epsilon, "delta": certificate.delta}
        assert deployment["privacy_loss"]["privacy_parameters"] == stated
        assert certificate.digest() in deployment["administrative"]["notes"]
        assert certificate.digest() in page
        assert page.count("\n## ") == 10 + (not fields)
        assert page.count("**Not answered**") >= 10
        assert "timing, memory use" in page
        assert ("the ministry states" in page) == (kind == "silos")
    assert deployment["basic"]["name"] == OWNER["name"]
    assert OWNER["access_control"] in page
    assert entry["url_slug"] == "wards-night-day-1-ministry-of-health-registry-2026"


def test_the_verb_says_what_is_left_to_fill_in_and_what_cannot_be(desk, fitted, cli):
    asked = [
        "export",
        fitted.out,
        "--registry",
        "wards_2026.yaml",
        "--nist",
        "wards.md",
    ]
    ended = cli(
        *asked,
        "--field",
        "name=Wards",
        "--field",
        "data_curators=A",
        "--field",
        "data_curators=B",
    )
    assert ended.code == 0
    assert "Written: wards_2026.yaml" in ended.out
    assert "intended_use, what it is for" in ended.out
    assert "under the data set clinic" in (desk.folder / "wards.md").read_text(
        encoding="utf-8"
    )
    before = desk.listing()
    new = ["export", fitted.out, "--nist", "new.md"]
    for arguments, words in (
        (asked, "--registry wards_2026.yaml exists"),
        (["export", fitted.out], "name a file"),
        (["export", desk.folder, "--nist", "new.md"], "not a whole model folder"),
        ([*new, "--registry", "Wards.yml"], "ends in .yaml"),
        ([*new, "--field", "names=x"], "did you mean name?"),
        ([*new, "--field", "name"], "NAME=TEXT"),
        ([*new, "--field", "name="], "expected a line of text"),
        ([*new, "--field", "name=a", "--field", "name=b"], "is given 2 times"),
        (
            [*new, "--field", "publication_date=1.3.2026"],
            "the day of publication, such as",
        ),
        ([*new, "--field", "data_product_sector=Fishing"], "Technology, Healthcare"),
    ):
        ended = cli(*arguments)
        assert ended.code == 2, (
            arguments,
            ended.err,
        )
        assert words in " ".join(ended.err.split()), (
            arguments,
            ended.err,
        )
    assert desk.listing() == before
    with pytest.raises(OptionError, match="expected the path of a model folder"):
        export({}, nist=desk.folder / "new.md")

"""`noisegate start` on a machine where nothing is: typed, from a file of answers, and with answers that do not do."""

import pytest
from tests.journeys.conftest import RECORDS, survey

KNOWN = [
    ("Private records", "survey.csv"),
    ("Approximate number", "10000"),
    ("Column that names the person", ""),
    ("Epsilon [1]", ""),
    ("Name of the data set", "survey"),
    ("Cap on epsilon", "2"),
    ("Model folder", ""),
    ("Held-out real records", "none"),
    ("Folder of the pages", ""),
    ("Title of the pages", ""),
    ("Owner: who answers", "Data Office"),
    ("Purpose: what the copy is for", ""),
]
ANSWERS = dict(
    records=10000,
    epsilon=1,
    dataset="survey",
    cap=2,
    out="model",
    pages="pages",
    test=0.2,
)
MADE = {
    "model",
    "model-synthetic.csv",
    "model-synthetic.csv-metadata.json",
    "pages",
    "schema.toml",
    "survey.csv",
}


@pytest.fixture
def newcomer(person):
    (person.folder / "survey.csv").write_text(survey(RECORDS))
    return person


ASIDE = {"survey-train.csv", "survey-test.csv"}


def whole(person, *, spent, records=10_000):
    """What was made is whole, and the ledger that was made knows of it."""
    assert person.types("noisegate verify model --json").json["ok"]
    [account] = person.types("noisegate ledger show --json").json["accounts"]
    assert account["dataset"] == "survey"
    assert account["epsilon"] == 2
    assert account["committed"] == spent
    assert (
        len((person.folder / "model-synthetic.csv").read_text().splitlines())
        == 1 + records
    )
    assert person.types("noisegate ledger check").code == 0


def test_typed_from_a_bare_file_to_a_verified_copy(newcomer):
    kinds = [
        ("age: ", "int"),
        ("hours: ", "continuous"),
        ("job: ", "what"),
        ("job: ", "cat"),
        ("income: ", "cat"),
    ]
    code, printed = newcomer.answers(
        "noisegate start",
        [
            ("How will you describe the columns", "discover"),
            *[
                ("Private records", "nowhere.csv"),
                *KNOWN[:5],
                ("Cap on epsilon", "0.5"),
                *KNOWN[5:],
            ],
            *kinds,
            ("to be predicted", "income"),
            ("Epsilon for bounds", ""),
            *[("Continue?", "y"), ("Is it correct?", "y"), ("Continue?", "y")],
        ],
    )
    assert code == 0, printed
    for words in (
        "'nowhere.csv' does not exist",
        "'0.5' is not from 1 to 1000",
        "'what' is none of continuous",
    ):
        assert words in printed
    assert (
        printed.index("The discovery spends 0.25")
        < printed.index("Registered 'survey'")
        < printed.index("as estimated")
    )
    page = (newcomer.folder / "pages" / "public.html").read_text("utf-8")
    assert printed.count("Owner: who") == 1
    assert "Owner: Data Office" in page
    whole(newcomer, spent=2)
    assert newcomer.lies() == MADE | {"schema.toml.certificate.json"}


@pytest.mark.parametrize("answer", ["n", "\x03"])
def test_nothing_is_spent_or_made_where_the_answer_is_no(newcomer, answer):
    (newcomer.folder / "public.csv").write_text(survey(2000, seed=1))
    code, printed = newcomer.answers(
        "noisegate start --label income",
        [
            ("How will you describe the columns", ""),
            ("File of public records", "public.csv"),
            ("Read schema.toml", "y"),
            *KNOWN,
            ("Continue?", answer),
        ],
    )
    assert code == (2 if answer == "n" else 130), printed
    assert newcomer.lies() == {"survey.csv", "public.csv", "schema.toml"}
    assert not list(newcomer.home.rglob("*.sqlite")), "no ledger was made"


def test_from_a_file_of_answers_to_a_verified_copy(newcomer):
    (newcomer.folder / "codebook.csv").write_text(
        "name,type,min,max,values\nage,integer,18,100,\nhours,number,0,120,\njob,categorical,,,nurse|teacher|farmer\n"
        "income,categorical,,,no|yes\n"
    )
    answers = {"data": "survey.csv", "dictionary": "codebook.csv", **ANSWERS}
    lines = [
        f"{name} = {value if isinstance(value, int) else repr(value)}"
        for name, value in answers.items()
    ]
    (newcomer.folder / "answers.toml").write_text("\n".join(lines) + "\n")
    ended = newcomer.types("noisegate start --answers answers.toml --yes")
    assert "Verdict: " in ended.out
    whole(newcomer, spent=1, records=8000)
    assert "Look at pages/private.html, and keep it private" in " ".join(
        ended.err.split()
    )
    assert newcomer.lies() == MADE | ASIDE | {"codebook.csv", "answers.toml"}
    for name in ASIDE:
        (newcomer.folder / name).unlink()
    (newcomer.folder / "schema.toml").unlink()
    again = newcomer.types(
        "noisegate start --answers answers.toml --yes --out second --epsilon 1.9",
        code=3,
    )
    assert "is left; ask for less" in " ".join(again.err.split())

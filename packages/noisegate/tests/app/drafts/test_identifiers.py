import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from noisegate import plan
from noisegate.app.drafts.draft import draft
from noisegate.app.drafts.identifiers import draft_identifier, is_called_identifier

RECORD_COUNT = 600
RANDOM = np.random.default_rng(3)
# 200 people, three records of most, as whole numbers.
PEOPLE = RANDOM.integers(1, 200, RECORD_COUNT)

PERSONS = {
    "subject_id": PEOPLE,
    "id": PEOPLE,
    "policyID": PEOPLE + 10_000,
    "idcode": PEOPLE,
    "case.id": PEOPLE,
    "USUBJID": [f"S-{person:04}" for person in PEOPLE],
    "Patientennummer": PEOPLE,
    "patient": PEOPLE % 30,  # of few people, with many records each
    "Subject": [f"S{person % 18}" for person in PEOPLE],
    "device_user_id": PEOPLE % 12,
    "record_key": PEOPLE,  # of whom is not said, and yet no amount
}

# Called like identifiers, or like persons, and yet worth learning.
NO_PERSONS = {
    "ward_id": PEOPLE % 12,
    "gender_concept_id": 8500 + PEOPLE % 15,
    "municipality": 1000 + PEOPLE,
    "school_id": PEOPLE,
    "sensor_id": PEOPLE % 40,
    "patient": RANDOM.poisson(0.4, RECORD_COUNT) + PEOPLE % 11 // 10 * 9,  # a count
    "subject": [f"topic {'abcdefghijkl'[person % 12]}" for person in PEOPLE],
    "person_years": PEOPLE,
    "case": PEOPLE % 2,
}


def drafted(name, values):
    table = pd.DataFrame({name: values, "age": RANDOM.integers(18, 90, RECORD_COUNT)})
    return draft(table)


@pytest.mark.parametrize("name", PERSONS)
def test_a_repeated_identifier_is_ignored_and_protects_persons(name):
    values = PERSONS[name]
    max_records = pd.Series(values).value_counts().max()
    reason = drafted(name, values).ignored[name]
    options = f"unit_column={name!r} and contributions={max_records}"
    assert f"One person has up to {max_records} records: protect persons" in reason
    assert reason.endswith(options)


@pytest.mark.parametrize("name", NO_PERSONS)
def test_codes_of_places_and_kinds_and_counts_are_learnt(name):
    assert not drafted(name, NO_PERSONS[name]).ignored


def test_options_quote_a_name_with_blanks():
    reason = drafted("case id", PEOPLE).ignored["case id"]
    assert "unit_column='case id' and contributions=" in reason


def test_missing_identifiers_do_not_hide_that_they_are_repeated():
    values = np.where(PEOPLE < 20, np.nan, PEOPLE)  # floats, as pandas stores them
    assert "One person has up to" in drafted("subject_id", values).ignored["subject_id"]


def test_a_label_is_predicted_whatever_it_is_called():
    table = pd.DataFrame({"user_id": PEOPLE % 12, "age": PEOPLE})
    assert draft(table, label="user_id").schema.label == "user_id"


def test_a_draft_with_a_repeated_identifier_plans_for_persons():
    schema = drafted("subject_id", PEOPLE).schema
    planned = plan(schema, epsilon=1.0, unit_column="subject_id", contributions=3)
    assert planned.plan is not None


@pytest.mark.parametrize(
    "last", ["1e-05", "1E+22", "inf", "-Infinity", "1.5e3", ".5", "nan"]
)
def test_numbers_that_all_differ_are_no_identifier_however_they_are_written(
    last, tmp_path
):
    reals = RANDOM.uniform(0, 9, 500)
    lines = "".join(f"{real},{index % 7}\n" for index, real in enumerate(reals))
    path = tmp_path / "public.csv"
    path.write_text(f"x,y\n{lines}{last},3\n")
    assert draft(path).schema.column("x").kind == "continuous"


def test_codes_that_all_differ_are_identifiers_even_where_one_looks_like_a_number():
    codes = [f"{number}e{number % 9}" for number in range(100, 160)] + ["a1"]
    assert draft_identifier("code", pa.array(codes)) is not None


@pytest.mark.parametrize("name", ["subjid", "personid", "custid", "PatientID"])
def test_names_without_a_border_are_called_identifiers(name):
    assert is_called_identifier(name)

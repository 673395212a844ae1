import numpy as np
import pandas as pd
import pytest

from noisegate.app.drafts.links import find_links
from noisegate.errors import SchemaError
from noisegate.sources.frames import read_table

RANDOM = np.random.default_rng(0)
PERSON_COUNT = 60


def counted(name, count, **columns):
    return pd.DataFrame({name: range(1, count + 1), **columns})


def persons_of(count):
    return RANDOM.integers(1, PERSON_COUNT + 1, count)


PERSON = counted(
    "person_id",
    PERSON_COUNT,
    gender_concept_id=RANDOM.choice([8507, 8532], PERSON_COUNT),
    year_of_birth=RANDOM.integers(1930, 2010, PERSON_COUNT),
)
MEASUREMENT = counted(
    "measurement_id",
    9000,
    person_id=persons_of(9000),
    measurement_concept_id=RANDOM.integers(1, 900, 9000),
    value=RANDOM.normal(80, 12, 9000).round(1),
)
DRUG_EXPOSURE = counted("drug_exposure_id", 900, person_id=persons_of(900))
CONCEPT = counted("concept_id", 9000)


def parents(**tables):
    """Returns the parent of each child, and the column that names it."""
    links = find_links({name: read_table(table) for name, table in tables.items()})
    return {child: (link.parent, link.parent_key) for child, link in links.items()}


PERSON_LINK = ("person", "person_id")


def test_the_table_in_which_a_shared_identifier_is_unique_is_the_parent():
    tables = {
        "person": PERSON,
        "measurement": MEASUREMENT,
        "drug_exposure": DRUG_EXPOSURE,
    }
    expected = {"measurement": PERSON_LINK, "drug_exposure": PERSON_LINK}
    assert parents(**tables) == expected
    reordered = dict(reversed(tables.items()))
    assert parents(**reordered) == expected
    assert parents(person=PERSON, measurement=MEASUREMENT) == {
        "measurement": PERSON_LINK
    }


def test_codes_of_concepts_name_no_records():
    with pytest.raises(SchemaError, match="person and concept: expected one root"):
        parents(person=PERSON, measurement=MEASUREMENT, concept=CONCEPT)


def test_a_guess_by_other_names_stands_where_nothing_speaks_against_it():
    visits = pd.DataFrame({"visit_no": range(300), "patient_no": persons_of(300)})
    assert parents(patients=PERSON.rename(columns={"person_id": "id"}), visits=visits)[
        "visits"
    ] == ("patients", "patient_no")


def test_a_column_called_like_a_nearer_parent_stands_beside_equal_names():
    visits = counted("id", 300, person_id=persons_of(300))
    diagnoses = pd.DataFrame({"visit": RANDOM.integers(1, 301, 900)})
    diagnoses["person_id"] = visits["person_id"].to_numpy()[diagnoses["visit"] - 1]
    assert parents(person=PERSON, visits=visits, diagnoses=diagnoses) == {
        "visits": PERSON_LINK,
        "diagnoses": ("visits", "visit"),
    }

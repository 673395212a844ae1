"""The benchmark of linked tables: its clinic and sets fit their schemas, and its page says what the runs say."""

import sys
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from noisegate.linked.source import LinkedSource

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "linked"))

import linked_scores
from clinic import SHAPES, clinic
from flattened import flat
from independent import NUMBER
from linked_sets import schema_of

FOLDER = Path(linked_scores.__file__).parent
SCHEMA = schema_of("clinic")
VISITS = SCHEMA.links[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_clinic_fits_its_schema_and_keeps_its_rules(shape):
    tables = clinic(300, shape=shape)
    with LinkedSource(tables, SCHEMA) as source:
        # Read strictly: a value that the schema does not know, an orphan or a repeated key would be refused.
        source.check()
        assert sum(len(part.weights) for part in source.transitions(VISITS)) >= len(tables["visits"])
    patients = pc.index_in(tables["visits"]["id"], value_set=tables["patients"]["id"]).to_numpy()
    entered = tables["patients"]["entered"].to_numpy()[patients]
    assert (tables["visits"]["day"].to_numpy() >= entered).all()
    assert np.bincount(patients).max() <= SCHEMA.table("visits").most
    assert {"yes", "no"} == set(tables["patients"]["admitted"].to_pylist())


def test_a_clinic_has_what_is_to_be_kept():
    tables = clinic(3000)
    rows, schema = flat(tables, VISITS)
    keys = rows["id"].to_numpy(zero_copy_only=False)
    order = np.lexsort((rows["visits.day"].to_numpy(zero_copy_only=False).astype("M8[D]"), keys))
    same = keys[order][:-1] == keys[order][1:]
    pressure = rows["visits.pressure"].to_numpy(zero_copy_only=False)[order]
    known = same & np.isfinite(pressure[:-1])
    assert np.corrcoef(pressure[:-1][known], pressure[1:][known])[0, 1] > 0.8
    ill = np.asarray(rows["patients.chronic"]) != "none"
    number = rows[NUMBER.format("visits")].to_numpy()
    assert number[ill].mean() > 1.3 * number[~ill].mean()
    # Children, and one row for each patient without any.
    childless = 3000 - len(set(tables["visits"]["id"].to_pylist()))
    assert len(rows) == len(tables["visits"]) + childless and childless > 0
    assert schema.ignore == ("id",)

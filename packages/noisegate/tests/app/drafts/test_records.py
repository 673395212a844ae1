import numpy as np
import pandas as pd
import pytest

from noisegate.app.drafts.draft import draft, draft_schema
from noisegate.schema import EncodedTable, decode
from noisegate.sources import TableSource

RECORD_COUNT = 200
RANDOM = np.random.default_rng(9)
TABLE = pd.DataFrame(
    {
        "region": RANDOM.choice(["north", "south"], RECORD_COUNT),
        "mass": RANDOM.integers(40, 120, RECORD_COUNT),
        "height": RANDOM.integers(140, 200, RECORD_COUNT),
    }
)


def drafted(path, table):
    table.to_csv(path, index=False)
    return draft(path)


def with_row(table, *, at_top=False, **cells):
    row = pd.DataFrame([cells], columns=table.columns)
    return pd.concat([row, table] if at_top else [table, row])


UNIT_ROWS = {
    "units": {"mass": "kg", "height": "cm"},
    "one unit": {"height": "cm"},
    "a second header": {"region": "Region", "mass": "Body mass", "height": "Height"},
}
TOTAL_ROWS = ["Total", "Summe", "Gesamt", "Insgesamt:", "TOTAL", "Grand total"]


@pytest.mark.parametrize("name", UNIT_ROWS)
def test_a_row_of_units_is_remarked(name, tmp_path):
    table = with_row(TABLE, at_top=True, **UNIT_ROWS[name])
    result = drafted(tmp_path / "public.csv", table)
    [remark] = result.record_remarks
    assert f"{UNIT_ROWS[name]['height']!r} in height" in remark
    assert remark[:40] in result.toml()
    with pytest.warns(UserWarning, match="the first record holds"):
        draft_schema(tmp_path / "public.csv")


@pytest.mark.parametrize("word", TOTAL_ROWS)
def test_a_row_of_totals_is_remarked(word, tmp_path):
    sums = {name: TABLE[name].sum() for name in ("mass", "height")}
    table = with_row(TABLE, region=word, **sums)
    [remark] = drafted(tmp_path / "public.csv", table).record_remarks
    assert f"{word!r} in region, as a row of totals does" in remark


NO_ODD_ROWS = {
    "none": TABLE,
    "a number in the first row": with_row(TABLE, at_top=True, mass=70, height="tall"),
    "a missing word": with_row(TABLE, at_top=True, mass="unknown", height="unknown"),
    "totals are a level": TABLE.assign(region=["total", "part"] * (RECORD_COUNT // 2)),
}


@pytest.mark.parametrize("name", NO_ODD_ROWS)
def test_usual_rows_are_not_remarked(name, tmp_path):
    assert not drafted(tmp_path / "public.csv", NO_ODD_ROWS[name]).record_remarks


CODES = {
    "country": ["NA", "DE", "FR", "ZA", "US"],
    "continent": ["NA", "EU", "AF", "AS", "OC"],
}


@pytest.mark.parametrize("name", CODES)
def test_na_among_codes_of_countries_is_a_level(name, tmp_path):
    path = tmp_path / "public.csv"
    codes = RANDOM.choice(CODES[name], RECORD_COUNT)
    result = drafted(path, TABLE.assign(code=codes))
    column = result.schema.column("code")
    assert set(column.levels) == set(CODES[name])
    assert not column.missing
    assert "NA" not in result.schema.missing_values
    assert "'NA' is the code of Namibia" in " ".join(result.entries[-1].comments)
    batches = list(TableSource(path, result.schema).batches())
    decoded = decode(EncodedTable.concatenate(batches), result.schema)
    assert decoded["code"].to_pylist() == codes.tolist()


def test_na_that_other_columns_have_too_stays_missing_with_a_remark(tmp_path):
    table = TABLE.assign(country=RANDOM.choice(CODES["country"], RECORD_COUNT))
    table["mass"] = np.where(TABLE["mass"] < 50, "NA", TABLE["mass"].astype(str))
    result = drafted(tmp_path / "public.csv", table)
    assert result.schema.column("mass").kind == "integer"
    assert result.schema.column("country").missing
    comments = " ".join(result.entries[-1].comments)
    assert "'NA' is read as missing, since other columns have it too" in comments


@pytest.mark.parametrize(
    "codes", [["NA", "CA", "NY", "TX", "AL"], ["NA", "DE", "FR"], ["NA", "A", "B", "C"]]
)
def test_na_among_other_codes_is_missing(codes, tmp_path):
    table = TABLE.assign(code=RANDOM.choice(codes, RECORD_COUNT))
    result = drafted(tmp_path / "public.csv", table)
    assert result.schema.column("code").missing
    assert not result.entries[-1].comments

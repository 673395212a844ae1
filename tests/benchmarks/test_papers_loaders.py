"""The data sets of the papers, from made-up files in the published formats: each loads and fits its public schema."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from noisegate import Gate, Schema
from noisegate.data.tables.tables import TableSource
from noisegate.errors import DataError
from noisegate.schema import EncodedTable, decode

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from papers.catalogue import DATASETS, TABLES, load, published
from papers.published import Loaded

pytestmark = pytest.mark.slow  # scripts that make figures, and are run by hand

ROWS = 10
CENSUS = (
    " Not in universe, 0, 0, High school graduate, 0, Not in universe, Widowed, Not in universe or children,"
    " Not in universe, White, NA, Female, Not in universe, Not in universe, Not in labor force, 0, 0, 0, Nonfiler,"
    " Not in universe, ?, Other Rel 18+ ever marr not in subfamily, Other relative of householder, 1700.09, ?, ?, ?,"
    " Not in universe under 1 year old, ?, 0, Not in universe, United-States, ?, Outlying-U S (Guam USVI etc),"
    " Native- Born in the United States, 0, Not in universe, 2, 0, 95,"
)
CERVICAL = (
    "Age,Number of sexual partners,First sexual intercourse,Num of pregnancies,Smokes,Smokes (years),"
    "Smokes (packs/year),Hormonal Contraceptives,Hormonal Contraceptives (years),IUD,IUD (years),STDs,STDs (number),"
    "STDs:condylomatosis,STDs:cervical condylomatosis,STDs:vaginal condylomatosis,"
    "STDs:vulvo-perineal condylomatosis,STDs:syphilis,STDs:pelvic inflammatory disease,STDs:genital herpes,"
    "STDs:molluscum contagiosum,STDs:AIDS,STDs:HIV,STDs:Hepatitis B,STDs:HPV,STDs: Number of diagnosis,"
    "STDs: Time since first diagnosis,STDs: Time since last diagnosis,Dx:Cancer,Dx:CIN,Dx:HPV,Dx,Hinselmann,Schiller,"
    "Citology,Biopsy"
)


def joined(*values):
    return ",".join(map(str, values))


def adult(folder, row):
    income = ">50K" if row % 2 else "<=50K"
    return f"{20 + row}, ?, 77516, Bachelors, 13, Divorced, ?, Wife, White, Male, 2174, 0, 40, United-States, {income}"


def census(folder, row):
    return f"{row},{CENSUS}{' 50000+.' if row % 2 else ' - 50000.'}"


def credit(folder, row):
    return joined(row, *np.linspace(-3.5, 3.5, 28), 149.62, f'"{row % 2}"')


def epileptic(folder, row):
    return joined(f'"X{row}.V1.791"', *range(178), row % 5 + 1)


def isolet(folder, row):
    return ", ".join([f"{value:.4f}" for value in np.linspace(-1, 1, 617)] + [f"{row + 1}."])


def covtype(folder, row):
    areas, soils = np.eye(4, dtype=int)[row % 4], np.eye(40, dtype=int)[row * 3]
    return joined(2596, 51, 3, 258, -12, 510, 221, 232, 148, 6279, *areas, *soils, row % 7 + 1)


def intrusion(folder, row):
    attack = ["normal", "smurf", "satan", "warezclient", "rootkit"][row % 5]
    service = "http" if row else "tcpmux"  # a service that the published list does not have
    counts = [8, 8, *["0.00"] * 7, 9, 9, *["1.00"] * 8]
    return joined(0, "tcp", service, "SF", 181, 5_450, 0, 0, 0, 0, 0, 1, 0, 0, 2, *[0] * 5, 0, 0, *counts, f"{attack}.")


def cervical(folder, row):
    answers = ["?"] * 27 if row == 3 else ["4.0", "15.0", "1.0", *["0.0"] * 22, "?", "?"]
    return joined(18 + row, *answers, 0, 0, 0, 0, 0, 0, 0, row % 2)


FILES: dict[str, tuple[Callable[[Path, int], str], str, str]] = {
    "adult": (adult, "adult.data", ""),
    "census": (census, "census-income.data", ""),
    "credit": (credit, "creditcard.csv", joined('"Time"', *(f'"V{n}"' for n in range(1, 29)), '"Amount"', '"Class"')),
    "epileptic": (epileptic, "data.csv", joined('""', *(f'"X{n}"' for n in range(1, 179)), '"y"')),
    "isolet": (isolet, "isolet1+2+3+4.data", ""),
    "isolet-test": (isolet, "isolet5.data", ""),
    "covtype": (covtype, "covtype.data", ""),
    "intrusion": (intrusion, "kddcup.data_10_percent", ""),
    "cervical": (cervical, "risk_factors_cervical_cancer.csv", CERVICAL),
}
LABELS = {
    "adult": {"<=50K", ">50K"},
    "census": {"-50000", "50000+"},
    "credit": {0, 1},
    "epileptic": {"seizure", "no seizure"},
    "isolet": {"vowel", "consonant"},
    "isolet-test": {"vowel", "consonant"},
    "covtype": {1, 2, 3, 4, 5, 6, 7},
    "intrusion": {"normal", "dos", "probe", "r2l", "u2r"},
    "cervical": {False, True},
}


def write(name: str, folder: Path, rows: int = ROWS) -> Path:
    make, file, header = FILES[name]
    lines = ([header] if header else []) + [make(folder, row) for row in range(rows)]
    path = folder / file
    path.write_text("\n".join(lines) + "\n\n")  # some end with an empty line
    return path


def encoded(table: pa.Table, schema: Schema) -> EncodedTable:
    return EncodedTable.concatenate(list(TableSource(table, schema).batches()))


def cells(loaded: Loaded) -> dict[str, list[object]]:
    """Training and test records as the schema reads them."""
    both = pa.concat_tables([loaded.train, loaded.test])
    return dict(decode(encoded(both, loaded.schema), loaded.schema).to_pydict())


@pytest.mark.parametrize("name", TABLES)
def test_a_table_in_its_published_format_fits_its_schema(name: str, tmp_path: Path) -> None:
    write(name, tmp_path)
    loaded = load(name, tmp_path)
    share = published(name).train_share
    assert share is not None
    assert loaded.train.num_rows == round(share * ROWS)
    assert loaded.test.num_rows == ROWS - loaded.train.num_rows
    assert loaded.schema.label is not None
    assert set(cells(loaded)[loaded.schema.label]) == LABELS[name]
    Gate(loaded.train, schema=loaded.schema, epsilon=1.0)  # checks names and types


def test_the_split_follows_from_the_seed_and_loses_no_record(tmp_path: Path) -> None:
    write("adult", tmp_path)
    first, again, other = (load("adult", tmp_path, seed=seed) for seed in (0, 0, 1))
    assert first.train.equals(again.train)
    assert not first.train.equals(other.train)
    assert sorted(cells(first)["age"]) == sorted(cells(other)["age"]) == [20 + row for row in range(ROWS)]


@pytest.mark.parametrize("name", DATASETS)
def test_a_missing_file_is_named_with_where_the_set_is_described(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load(name, tmp_path)
    for part in (name, published(name).files[0], str(tmp_path), published(name).page, "--data"):
        assert part in str(caught.value)


@pytest.mark.parametrize("name", TABLES)
def test_a_broken_file_is_named_and_no_record_is_quoted(name: str, tmp_path: Path) -> None:
    path = write(name, tmp_path)
    path.write_text(path.read_text().rstrip("\n") + ",secret\n")
    with pytest.raises(DataError, match="cannot be read as comma-separated text") as caught:
        load(name, tmp_path)
    assert str(path) in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None  # Arrow's own message would quote it

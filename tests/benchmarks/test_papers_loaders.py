"""The data sets of the papers, from made-up files in the published formats: each loads and fits its public schema."""

import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from noisegate import Gate, Schema
from noisegate.data.tables.tables import TableSource
from noisegate.errors import DataError, OptionError
from noisegate.schema import EncodedTable, decode

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from papers.catalogue import DATASETS, IMAGES, TABLES, load, published
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


def test_every_table_of_the_papers_is_tested_here() -> None:
    assert set(FILES) == set(TABLES) == set(DATASETS) - set(IMAGES)


def test_the_split_follows_from_the_seed_and_loses_no_record(tmp_path: Path) -> None:
    write("adult", tmp_path)
    first, again, other = (load("adult", tmp_path, seed=seed) for seed in (0, 0, 1))
    assert first.train.equals(again.train)
    assert not first.train.equals(other.train)
    assert sorted(cells(first)["age"]) == sorted(cells(other)["age"]) == [20 + row for row in range(ROWS)]


def test_adult_may_have_a_header_line(tmp_path: Path) -> None:
    plain = load("adult", write("adult", tmp_path).parent)
    (tmp_path / "train.csv").write_text(
        ",".join(plain.schema.names) + "\n" + (tmp_path / "adult.data").read_text().strip()
    )
    (tmp_path / "adult.data").unlink()
    assert load("adult", tmp_path).train.equals(plain.train)


def test_census_leaves_out_the_weight_and_knows_na_from_missing(tmp_path: Path) -> None:
    write("census", tmp_path)
    found = cells(load("census", tmp_path))
    assert "instance weight" not in found
    assert set(found["hispanic origin"]) == {"NA"}
    assert set(found["country of birth mother"]) == {None}
    # What stands on either side of the weight in the file.
    assert set(found["detailed household summary in household"]) == {"Other relative of householder"}
    assert set(found["citizenship"]) == {"Native- Born in the United States"}
    assert set(found["year"]) == {95}


def test_credit_leaves_out_the_time(tmp_path: Path) -> None:
    write("credit", tmp_path)
    found = cells(load("credit", tmp_path))
    assert list(found) == [*(f"V{n}" for n in range(1, 29)), "Amount", "Class"]
    assert found["V28"] == pytest.approx([3.5] * ROWS)


def test_labels_are_grouped_as_the_papers_say(tmp_path: Path) -> None:
    # A, E, I, O, U of 26 letters; state 1 in the rows 0, 5, 10, ... 25. The last level is the positive class.
    for name, positive, count in (("isolet", "vowel", 5), ("epileptic", "seizure", 6)):
        write(name, tmp_path, 26)
        loaded = load(name, tmp_path)
        labels = [label for part in (loaded.train, loaded.test) for label in part[loaded.schema.label].to_pylist()]
        assert len(labels) == 26
        assert labels.count(positive) == count
        assert loaded.schema.label_column.levels[-1] == positive


def test_copies_with_a_header_line_hold_the_same_records(tmp_path: Path) -> None:
    # Isolet: a header line, and letters as 1.0; epileptic: no first column, states without quotes.
    path = write("isolet-test", tmp_path)
    plain = load("isolet-test", tmp_path)
    header = joined(*(f"f{number}" for number in range(1, 618)), "class")
    lines = [header, *(f"{line}0" for line in path.read_text().split("\n") if line)]
    path.unlink()
    (tmp_path / "isolet_test.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    assert load("isolet-test", tmp_path).train.equals(plain.train)
    published_form = load("epileptic", write("epileptic", tmp_path).parent)
    cut = [line.split(",", 1)[1].replace('"', "") for line in (tmp_path / "data.csv").read_text().split()]
    (tmp_path / "data.csv").unlink()
    (tmp_path / "epileptic.csv").write_text("\n".join(cut))
    assert load("epileptic", tmp_path).train.equals(published_form.train)


def test_covtype_has_the_two_attributes_that_the_flags_code(tmp_path: Path) -> None:
    write("covtype", tmp_path)
    found = cells(load("covtype", tmp_path))
    order = np.argsort(found["soil_type"])
    assert np.array(found["soil_type"])[order].tolist() == [1 + 3 * row for row in range(ROWS)]
    assert np.array(found["wilderness_area"])[order].tolist() == [row % 4 + 1 for row in range(ROWS)]
    assert np.array(found["cover_type"])[order].tolist() == [row % 7 + 1 for row in range(ROWS)]


def test_covtype_refuses_a_record_with_two_soils(tmp_path: Path) -> None:
    path = write("covtype", tmp_path)
    lines = path.read_text().splitlines()
    fields = lines[4].split(",")
    fields[14:54] = ["1", "1", *["0"] * 38]
    path.write_text("\n".join([*lines[:4], ",".join(fields), *lines[5:]]))
    with pytest.raises(DataError, match="record 5: exactly one of soil_type_1 to soil_type_40"):
        load("covtype", tmp_path)


def test_covtype_takes_the_first_lines_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("papers.covtype.FIRST", 6)
    write("covtype", tmp_path)
    assert sorted(cells(load("covtype", tmp_path))["soil_type"]) == [1, 4, 7, 10, 13, 16]


def test_intrusion_knows_what_no_list_names_and_clamps(tmp_path: Path) -> None:
    write("intrusion", tmp_path)
    found = cells(load("intrusion", tmp_path))
    assert sorted(found["service"]) == ["http"] * (ROWS - 1) + ["other"]
    assert set(found["su_attempted"]) == {1}  # the file has a 2 there, the description 0 and 1


def test_cervical_keeps_a_record_with_many_missing_answers(tmp_path: Path) -> None:
    write("cervical", tmp_path)
    found = cells(load("cervical", tmp_path))
    assert sum(value is None for value in found["STDs"]) == 1
    assert found["IUD"].count(False) == ROWS - 1
    assert found["STDs: Time since last diagnosis"] == [None] * ROWS


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    path = write("covtype", tmp_path)
    plain = load("covtype", tmp_path)
    (tmp_path / "covtype.data.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert load("covtype", tmp_path).train.equals(plain.train)


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


@pytest.mark.parametrize("content", [b"", b"\xff\xfe,1\n1,2\n"])
def test_a_file_that_is_no_text_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "creditcard.csv").write_bytes(content)
    with pytest.raises(DataError, match=r"creditcard\.csv"):
        load("credit", tmp_path)


def test_an_unknown_label_is_named_by_record_and_not_quoted(tmp_path: Path) -> None:
    path = write("intrusion", tmp_path)
    path.write_text(path.read_text().replace("satan.", "secret."))
    with pytest.raises(DataError, match="the last field, record 3: expected one of 'normal', 'back'") as caught:
        load("intrusion", tmp_path)
    assert "secret" not in str(caught.value)


def test_a_header_without_a_column_is_named(tmp_path: Path) -> None:
    path = write("cervical", tmp_path)
    path.write_text(path.read_text().replace("Dx:CIN", "Dx:XIN"))
    with pytest.raises(DataError, match="the column 'Dx:CIN', once"):
        load("cervical", tmp_path)


def test_one_record_cannot_be_split(tmp_path: Path) -> None:
    write("adult", tmp_path, 1)
    with pytest.raises(DataError, match=r"1 record\(s\) cannot be split"):
        load("adult", tmp_path)


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="'titanic' is not known; choose one of adult, census"):
        load("titanic", tmp_path)


@pytest.mark.data
@pytest.mark.parametrize("name", ["adult", "cervical", "epileptic", "intrusion", "isolet-test"])
def test_the_real_file_is_read(name: str, data_dir: Path) -> None:
    loaded = load(name, data_dir / ("adult" if name == "adult" else "papers"))
    assert loaded.train.num_rows == published(name).train_records
    encoded(loaded.train, loaded.schema)
    encoded(loaded.test, loaded.schema)

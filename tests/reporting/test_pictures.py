import io
from datetime import date

import matplotlib
import numpy as np
import pyarrow as pa
import pytest
from matplotlib.image import imread

from noisegate.errors import DataError, OptionError
from noisegate.evaluation import CAVEAT
from noisegate.reporting import comparison_picture, pictures
from noisegate.schema import Boolean, Categorical, Continuous, Date, Ordinal, Schema

SCHEMA = Schema(
    columns=(
        Continuous(name="price $ in $ x_1^{", lower=0.0, upper=1.0, missing=True),
        Date(name="日付", lower=date(2020, 1, 1), upper=date(2024, 1, 1)),
        Categorical(name="c", levels=("$a$", "\\frac{", "a level with a very long name indeed"), missing=True),
        Ordinal(name="o", levels=(1, 2, 3)),
        Boolean(name="flag"),
    )
)


def rows(seed, count=60):
    generator = np.random.default_rng(seed)
    return pa.table(
        {
            "price $ in $ x_1^{": pa.array(generator.random(count), mask=generator.random(count) < 0.1),
            "日付": [date(2021, 1, 1 + int(day)) for day in generator.integers(0, 28, count)],
            "c": np.array([*SCHEMA.columns[2].levels, "?"])[generator.integers(0, 4, count)],
            "o": generator.integers(1, 4, count),
            "flag": generator.random(count) < 0.5,
        }
    )


def test_a_picture_is_written_whatever_the_names(tmp_path):
    target = tmp_path / "compare.png"
    comparison_picture(rows(0), rows(1), SCHEMA, target)
    image = imread(io.BytesIO(target.read_bytes()), format="png")
    assert image.shape[1] == 1600
    assert image.std() > 0.05  # not one flat colour
    assert matplotlib.rcParams["text.parse_math"] is True


def test_the_picture_says_that_it_is_outside_the_guarantee(tmp_path, monkeypatch):
    written = []

    def record(self, path, **options):
        for part in [self, *self.subfigs]:
            written.extend(text.get_text() for text in part.texts)

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", record)
    comparison_picture(rows(0), rows(1), SCHEMA, tmp_path / "compare.png")
    assert CAVEAT in written


def test_one_column_and_one_row_make_a_picture(tmp_path):
    schema = Schema(columns=(Boolean(name="flag"),))
    one = pa.table({"flag": [True]})
    comparison_picture(one, one, schema, tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_of_many_columns_those_that_differ_most_are_shown(tmp_path, monkeypatch):
    names = [f"c{i}" for i in range(pictures._MOST_PANELS + 5)]
    schema = Schema(columns=tuple(Boolean(name=name) for name in names))
    real = pa.table({name: [False] * 40 for name in names})
    synthetic = pa.table({name: [row < i for row in range(40)] for i, name in enumerate(names)})
    shown = []
    monkeypatch.setattr(pictures, "draw_marginal", lambda axes, one: shown.append(one.column.name))
    comparison_picture(synthetic, real, schema, tmp_path / "many.png")
    assert shown == names[:4:-1]


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(OptionError, match=r"nowhere.*compare\.png"):
        comparison_picture(rows(0), rows(1), SCHEMA, tmp_path / "nowhere" / "compare.png")


def test_a_table_without_rows_is_refused_and_leaves_no_file(tmp_path):
    with pytest.raises(DataError, match="synthetic table has no rows"):
        comparison_picture(rows(0).slice(0, 0), rows(1), SCHEMA, tmp_path / "compare.png")
    assert list(tmp_path.iterdir()) == []

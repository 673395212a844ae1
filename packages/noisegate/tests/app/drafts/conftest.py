"""Public files, and what is drafted of them."""

import pyarrow as pa
import pyarrow.csv
from tests.shared.data_room import people  # noqa: F401

from noisegate.app.drafts.draft import draft


def written(tmp_path, columns):
    pa.csv.write_csv(pa.table(columns), tmp_path / "public.csv")
    return draft(tmp_path / "public.csv")

"""The page on silos has the figures that the benchmark kept."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "scale"


def test_the_page_has_the_table_of_the_rows(capsys):
    spec = spec_from_file_location("benchmarks_scale_silos", FOLDER / "silos.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module._print(json.loads((FOLDER / "silos.json").read_text(encoding="utf-8")))
    printed = capsys.readouterr().out
    assert printed.count("\n") == 7
    assert printed in (ROOT / "docs" / "silos.md").read_text(encoding="utf-8")

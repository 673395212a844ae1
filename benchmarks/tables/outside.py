"""The bake-off's tables by scorers that are not ours: sdmetrics, and a plain one of pandas and scikit-learn.

    python benchmarks/tables/outside.py --out DIR [--tables ...]

Scores every synthetic table that `run.py` kept below DIR/runs, and real data, and writes DIR/outside.json; what is
scored already is left as it is. Nothing of noisegate is imported; sdmetrics has an environment of its own, in which
this file runs again. `report.py` shows the figures. They are computed on real data, outside the guarantee.

sdmetrics, with its defaults: the two parts of its quality report against the training table, and the F1 of AdaBoost
(a decision tree where there are more than two classes), trained on the synthetic table, on real test records; it has
no F1 where a synthetic table lacks a level. The plain
scorer: `HistGradientBoostingClassifier` with its defaults, trained on the whole synthetic table, on all real test
records; and mean total variation distances to the training table over all pairs and triples of columns (of `wide` and
`flights` 1,000 triples), numbers in 20 bins of equal width between the least and the largest of the training table.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import Option, hidden, needed, read_options
from harness.results import write_json
from peer_packages import environment

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

BINS, TRIPLES = 20, 1_000
REAL = "real data"


def main() -> int:
    """Scores what is new; 0 when all that could be read is scored."""
    options = read_options(
        __doc__,
        out=needed(Path),
        tables=Option(kind=str, default=[], is_list=True, help="all if not given"),
        inside=hidden(False),
    )
    if not options.inside:
        made = environment("sdmetrics", options.out / "environments")
        if made.error:
            print(made.error, file=sys.stderr)
            return 1
        return subprocess.run(
            [made.python, __file__, *sys.argv[1:], "--inside"], check=False
        ).returncode
    target = options.out / "outside.json"
    known = {
        _key(entry): entry
        for entry in (json.loads(target.read_text("utf-8")) if target.exists() else [])
    }
    for folder in sorted(
        path for path in (options.out / "tables").iterdir() if (path / "done").exists()
    ):
        if options.tables and folder.name not in options.tables:
            continue
        for asked, csv in _kept(options.out, folder):
            digest = hashlib.sha256(csv.read_bytes()).hexdigest()[:12]
            if known.get(_key(asked), {}).get("digest") == digest:
                continue
            known[_key(asked)] = {
                **asked,
                "digest": digest,
                **_figures(folder, csv, real=asked["method"] == REAL),
            }
            part = target.with_suffix(".part")
            write_json(part, list(known.values()), indent=1)
            part.replace(target)
            print(*_key(asked), flush=True)
    return 0


def _key(entry: dict[str, Any]) -> tuple[str, str, float, int]:
    return entry["table"], entry["method"], entry["epsilon"], entry["seed"]


def _kept(out: Path, folder: Path) -> list[tuple[dict[str, Any], Path]]:
    """The runs of a table whose synthetic table is there, after real data."""
    found = [
        (
            {"table": folder.name, "method": REAL, "epsilon": 0.0, "seed": 0},
            folder / "train.csv",
        )
    ]
    for csv in sorted((out / "runs" / folder.name).glob("*/*.csv")):
        answer = (
            json.loads(csv.with_suffix(".json").read_text("utf-8"))
            if csv.with_suffix(".json").exists()
            else {}
        )
        if answer.get("status") == "done":
            found.append(
                (
                    {
                        name: answer[name]
                        for name in (
                            "table",
                            "method",
                            "epsilon",
                            "seed",
                            "date",
                            "version",
                        )
                    },
                    csv,
                )
            )
    return found


def _figures(folder: Path, csv: Path, *, real: bool) -> dict[str, float]:
    description = tomllib.loads((folder / "schema.toml").read_text("utf-8"))
    numeric = [
        name
        for name, column in description["columns"].items()
        if column["kind"] in ("integer", "continuous")
    ]
    columns = list(description["columns"])
    train, test, synthetic = (
        _read(path, columns, numeric)
        for path in (folder / "train.csv", folder / "test.csv", csv)
    )
    # Real data is compared with other real data: what sampling alone does.
    reference = test if real else train
    return {
        **_plain(synthetic, reference, train, test, description["label"], numeric),
        **_sdmetrics(synthetic, reference, test, description["label"], numeric),
    }


def _read(path: Path, columns: list[str], numeric: list[str]) -> pd.DataFrame:
    import pandas as pd

    table = pd.read_csv(path, dtype=str, keep_default_na=False)[columns]
    for name in numeric:
        table[name] = pd.to_numeric(table[name], errors="coerce")
    return table


def _plain(
    synthetic: pd.DataFrame,
    reference: pd.DataFrame,
    train: pd.DataFrame,
    test: pd.DataFrame,
    label: str,
    numeric: list[str],
) -> dict[str, float]:
    import numpy as np
    import pandas as pd

    codes, sizes = [], []
    for name in synthetic.columns:
        if name in numeric:
            inner = np.linspace(train[name].min(), train[name].max(), BINS + 1)[1:-1]
            codes.append(
                [
                    np.where(part[name].isna(), BINS, np.digitize(part[name], inner))
                    for part in (synthetic, reference)
                ]
            )
            sizes.append(BINS + 1)
        else:
            levels = pd.Index(
                pd.concat([train[name], test[name], synthetic[name]]).unique()
            )
            codes.append(
                [levels.get_indexer(part[name]) for part in (synthetic, reference)]
            )
            sizes.append(len(levels))
    triples = list(itertools.combinations(range(len(codes)), 3))
    if len(triples) > 2 * TRIPLES:
        triples = [
            triples[place]
            for place in np.random.default_rng(0).choice(
                len(triples), TRIPLES, replace=False
            )
        ]
    pairs = list(itertools.combinations(range(len(codes)), 2))
    ways = {"plain_distance_2": pairs, "plain_distance_3": triples}
    distances = {
        name: float(
            np.mean(
                [
                    _variation(
                        [codes[place] for place in way], [sizes[place] for place in way]
                    )
                    for way in all_of
                ]
            )
        )
        for name, all_of in ways.items()
    }
    return {**_model(synthetic, train, test, label, numeric), **distances}


def _variation(codes: list[list[np.ndarray]], sizes: list[int]) -> float:
    import numpy as np

    shares = [
        np.bincount(np.ravel_multi_index(tuple(code[side] for code in codes), sizes))
        for side in (0, 1)
    ]
    width = max(map(len, shares))
    left, right = (
        np.pad(share, (0, width - len(share))) / share.sum() for share in shares
    )
    return float(np.abs(left - right).sum() / 2)


def _model(
    synthetic: pd.DataFrame,
    train: pd.DataFrame,
    test: pd.DataFrame,
    label: str,
    numeric: list[str],
) -> dict[str, float]:
    import numpy as np
    import pandas as pd
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import average_precision_score, roc_auc_score

    tables = [table.drop(columns=label) for table in (synthetic, test)]
    for name in tables[0].columns:
        if (
            name in numeric and tables[0][name].isna().all()
        ):  # it takes no column without a value
            for table in tables:
                table[name] = 0.0
        elif name not in numeric:
            levels = pd.CategoricalDtype(sorted(set(train[name])))
            for table in tables:
                coded = table[name].astype(levels)
                # It takes at most 255 levels; beyond, their places as numbers.
                table[name] = coded if len(levels.categories) < 255 else coded.cat.codes
    classes = sorted(set(train[label]))
    # Of two classes the rarer one is to be found; of more, the mean over the classes, one against the rest.
    wanted = classes if len(classes) > 2 else [train[label].value_counts().index[-1]]
    truth = {one: (test[label] == one).to_numpy() for one in wanted}
    known = synthetic[label].isin(classes)
    scores = pd.DataFrame(0.0, index=range(len(test)), columns=classes)
    if (
        synthetic[label][known].nunique() > 1
    ):  # without two classes there is nothing to learn
        model = HistGradientBoostingClassifier(random_state=0).fit(
            tables[0][known], synthetic[label][known]
        )
        scores[model.classes_] = model.predict_proba(tables[1])
    return {
        "plain_roc_auc": float(
            np.mean([roc_auc_score(truth[one], scores[one]) for one in wanted])
        ),
        "plain_average_precision": float(
            np.mean(
                [average_precision_score(truth[one], scores[one]) for one in wanted]
            )
        ),
    }


def _sdmetrics(
    synthetic: pd.DataFrame,
    reference: pd.DataFrame,
    test: pd.DataFrame,
    label: str,
    numeric: list[str],
) -> dict[str, float]:
    import warnings

    warnings.simplefilter("ignore")
    from sdmetrics.reports.single_table import QualityReport
    from sdmetrics.single_table import (
        BinaryAdaBoostClassifier,
        MulticlassDecisionTreeClassifier,
    )

    kinds = {
        name: {"sdtype": "numerical" if name in numeric else "categorical"}
        for name in reference.columns
    }
    report = QualityReport()
    report.generate(reference, synthetic, {"columns": kinds}, verbose=False)
    parts = report.get_properties().set_index("Property")["Score"]
    binary = test[label].nunique() == 2
    positive = test[label].value_counts().index[-1]
    targets = [
        table.assign(**{label: table[label] == positive}) if binary else table
        for table in (test, synthetic)
    ]
    model = BinaryAdaBoostClassifier if binary else MulticlassDecisionTreeClassifier
    figures = {
        "sdmetrics_shapes": float(parts["Column Shapes"]),
        "sdmetrics_pairs": float(parts["Column Pair Trends"]),
    }
    try:
        figures["sdmetrics_f1"] = float(model.compute(*targets, target=label))
    except (
        ValueError
    ) as error:  # a level of the test records that the synthetic table lacks
        print(f"no F1: {error}", file=sys.stderr)
    return figures


if __name__ == "__main__":
    sys.exit(main())

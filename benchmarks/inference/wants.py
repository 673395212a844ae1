"""Whether widths that `plan --want` promises hold: its ε for each population, and then that many fits of new records.

    python benchmarks/inference/wants.py [--fits 40] [--records 10000] [--json FILE]

Public records are another sample of the population. A promise holds where the widest interval of an answer is no wider.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import optional, read_options
from harness.results import write_json
from populations import POPULATIONS

import noisegate
from noisegate.app.analyses import price, read_want
from noisegate.methods.pairwise import Pairwise
from noisegate.records import Rows
from noisegate.sources.tables.tables import TableSource

WANTS = {
    "scm": ("mean(w) by g ±2 %", "w ~ x1 + g +- 0.15"),
    "clinic": ("share(severe = true) ±2 %", "mean(age) by severe ±3 %"),
    "rare": ("share(ill = true) ±1 %", "corr(a, b) ±5 %"),
    "survey": ("mean(age) by affair ±3 %", "corr(age, years) ±5 %"),
    "twenty": ("corr(n0, n1) ±8 %", "share(c0 = yes) ±3 %"),
}


def main() -> None:
    """Prints for each population the ε, and how many fits kept every promise."""
    options = read_options(
        __doc__,
        fits=40,
        records=10_000,
        json=optional(Path),
    )
    warnings.simplefilter("ignore")
    rows = []
    for name, texts in WANTS.items():
        population = POPULATIONS[name]
        wants = [read_want(text, population.schema) for text in texts]
        public = Rows.concatenate(
            list(TableSource(population.draw(5_000, 5), population.schema).batches())
        )
        found = price(wants, population.schema, options.records, stand_in=public)
        kept = 0
        for seed in range(options.fits if found.reached else 0):
            method = Pairwise(
                moments_share=found.moments_share, fit_options={"steps": 20}, seed=seed
            )
            real = population.draw(options.records, 7_000 + seed)
            model = noisegate.synthesize(
                real, schema=population.schema, epsilon=found.epsilon, method=method
            )
            kept += all(
                one.low is not None
                and one.high is not None
                and one.high - one.low <= 2 * want.half
                for want in wants
                for one in model.infer(want.question, level=want.level)
                if one.name != "intercept"
            )
        rows.append(
            {"population": name, **found.to_json(), "fits": options.fits, "kept": kept}
        )
        print(
            f"{name}: epsilon {found.epsilon:g}, share {found.moments_share:g}, kept {kept} of {options.fits}"
        )
    write_json(options.json, rows, indent=1)


if __name__ == "__main__":
    main()

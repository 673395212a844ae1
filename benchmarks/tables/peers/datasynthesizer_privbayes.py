"""DataSynthesizer in its correlated mode (PrivBayes), with its defaults: 20 equal bins, and its rule for parents.

Its code spends `epsilon` on single columns, half of it on the network and half of it on the conditional tables: twice
what it is given. So it gets half the ε of the comparison. It reads a file, and takes levels that look like numbers or
missing values for such, so levels are written as codes.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from contract import Answer, Request, run
from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.DataGenerator import DataGenerator

BINS = 20  # the default of DataDescriber


def fit(request: Request) -> Answer:
    """Describes the table and draws as many records as were read."""
    coded, kinds = request.train.copy(), {name: "String" for name in request.levels}
    kinds |= {
        name: "Integer" if whole else "Float"
        for name, (_, _, whole) in request.bounds.items()
    }
    names = {
        name: {level: f"L{code}" for code, level in enumerate(levels)}
        for name, levels in request.levels.items()
    }
    for name, codes in names.items():
        coded[name] = coded[name].map(codes)
    describer, generator = DataDescriber(histogram_bins=BINS), DataGenerator()
    with TemporaryDirectory() as folder:
        table, levels, description = (
            Path(folder) / name
            for name in ("table.csv", "levels.json", "description.json")
        )
        coded.to_csv(table, index=False)
        levels.write_text(
            json.dumps({name: list(codes.values()) for name, codes in names.items()}),
            encoding="utf-8",
        )
        describer.describe_dataset_in_correlated_attribute_mode(
            str(table),
            epsilon=request.epsilon / 2,
            attribute_to_datatype=kinds,
            attribute_to_is_categorical={name: name in names for name in kinds},
            attribute_to_is_candidate_key=dict.fromkeys(kinds, False),
            categorical_attribute_domain_file=str(levels),
            numerical_attribute_ranges={
                name: [low, high] for name, (low, high, _) in request.bounds.items()
            },
            seed=request.seed,
        )
        describer.save_dataset_description_to_file(str(description))
        generator.generate_dataset_in_correlated_attribute_mode(
            len(coded), str(description), seed=request.seed
        )
    synthetic = generator.synthetic_dataset
    for name, codes in names.items():
        synthetic[name] = synthetic[name].map(
            {code: level for level, code in codes.items()}
        )
    parents = max(len(chosen) for _, chosen in describer.bayesian_network)
    return Answer(
        synthetic=synthetic,
        settings={"epsilon": request.epsilon / 2, "parents": parents, "bins": BINS},
    )


if __name__ == "__main__":
    run("DataSynthesizer", fit)

"""What plan and fit say of linked tables is no better than what evaluate finds."""

import numpy as np
import pyarrow as pa

import noisegate
from noisegate import Gate
from noisegate.answers.verdict import WORDS
from noisegate.app.drafts.linked import draft_linked
from noisegate_evaluate import evaluate_linked

PATIENTS = 1500
READINGS = 24


def ward(seed):
    """Patients with a reading an hour from admission on, each near the one before."""
    random = np.random.default_rng(seed)
    hours = random.integers(0, 8000, PATIENTS)
    means = random.normal(80, 10, PATIENTS)
    rates = [means]
    for _ in range(READINGS):
        errors = random.normal(0, 4, PATIENTS)
        rates.append(means + 0.8 * (rates[-1] - means) + errors)
    keys = [f"P{patient:05d}" for patient in range(PATIENTS)]
    first_hour = np.datetime64("2023-01-01T00", "h")
    times = first_hour + (hours[:, None] + np.arange(READINGS)).ravel()
    patients = {
        "patient_id": keys,
        "sex": random.choice(["F", "M"], PATIENTS),
        "age": random.integers(18, 95, PATIENTS),
        "start": (first_hour + hours).astype("datetime64[s]"),
    }
    vitals = {
        "patient_id": np.repeat(keys, READINGS),
        "time": times.astype("datetime64[s]"),
        "bpm": np.rint(np.stack(rates[1:], axis=1)).astype(int).ravel(),
    }
    return {"patients": pa.table(patients), "vitals": pa.table(vitals)}


def test_no_word_for_a_ward_is_better_than_what_evaluate_finds():
    train = ward(seed=4)
    schema = draft_linked(train).schema
    planned = noisegate.plan(schema, epsilon=1.0, records=PATIENTS)
    fitted = planned.method.fit(Gate(train, schema=schema, epsilon=1.0))
    report = evaluate_linked(
        fitted.sample(PATIENTS, seed=0), ward(seed=5), schema, train
    )
    words = [each.verdict.word for each in (planned, fitted, report)]
    plan, fit, evaluate = map(WORDS.index, words)
    assert fit <= evaluate, words
    assert plan <= evaluate + 1, words
    reasons = "\n".join(fitted.verdict.reasons)
    assert "how vitals of one record of patients follow each other is" in reasons
    assert "when the first of vitals comes may be lost: 4% of rows" in reasons

"""What a step adds up does not depend on where records stand, for every method that asks for gradients (G-20).

A whole run of the gate without noise, its probe and its blocks included, on records of which half are zeros. With the
kernels of other processors, and with ones that round by the place of a record, it is run by `make test-kernels`.
"""

from dataclasses import fields

import numpy as np
import pytest
from tests.golden.names import without_noise

from noisegate.gate.execution import made_up_records
from noisegate.gate.gate import Gate
from noisegate.methods.gradient import GradientMethod
from noisegate.methods.registry import METHODS
from noisegate.privacy.gradient_plan import GradientPlan
from noisegate.schema import EncodedTable
from noisegate.schema.decode import decode
from noisegate_evaluate.auditing.examples import example

STEPS = 2
RECORDS = 70
"""More than a block of gradients holds."""


def everyone_at_once(name, folder):
    """Returns a method of two steps on all records, and its schema; None where it asks for no gradients of records."""
    if not issubclass(METHODS[name], GradientMethod):
        return None
    given = [field.name for field in fields(METHODS[name])]
    settings = dict.fromkeys(({"steps", "encoder_steps"}).intersection(given), STEPS) | {"seed": 0}
    settings |= {key: 1.0 for key in given if key.endswith("sampling_probability")}
    settings |= {"discriminator_steps": 1} if "discriminator_steps" in given else {}
    method, schema, budget = example(name, schema=None, settings=settings, folder=folder)
    return (method, schema) if isinstance(method.plan(schema, budget).plan, GradientPlan) else None


def sums_of(method, schema, records):
    seen = []
    gate = Gate(decode(records, schema), schema=schema, epsilon=1.0, records=RECORDS)
    with without_noise(seen.append):
        method.query(gate, method.plan(schema, gate.budget))
    return seen


@pytest.mark.parametrize("name", METHODS)
def test_where_a_record_stands_changes_no_sum_of_a_step(name, tmp_path):
    made = everyone_at_once(name, tmp_path)
    if made is None:
        pytest.skip("asks for no gradients of records")
    records = made_up_records(made[1].layout, RECORDS, np.random.default_rng(0))
    records.numeric[RECORDS // 2 :] = 0.0
    turned = EncodedTable(records.numeric[::-1].copy(), records.codes[::-1].copy())
    sums, others = sums_of(*made, records), sums_of(*made, turned)
    assert len(sums) == len(others) >= STEPS
    assert all(np.array_equal(one, other) for one, other in zip(sums, others, strict=True))

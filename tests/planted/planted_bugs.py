"""Breaks the library on purpose: applies each of the privacy bugs below to a copy, and asserts that the tests find it.

    python tests/planted/planted_bugs.py [-k NAME]

A bug is a textual replacement that must fit exactly once, so that one that no longer applies is an error and not a
success. The tests named beside it must fail on the broken copy, by failing tests and by nothing else; and all of them
must pass on a copy that was not broken.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNBROKEN = "unbroken"
PASSED, FAILED = 0, 1  # pytest's exit codes; anything else is neither

# Loaded into pytest in the copy: an editable install must not stand in for it.
WITNESS = """
import sys
from pathlib import Path

import noisegate


def pytest_configure():
    here = Path(__file__).resolve().parent
    if here not in Path(noisegate.__file__).resolve().parents:
        sys.exit(f"{noisegate.__file__} was imported instead of the copy in {here}")
"""


@dataclass(frozen=True)
class Bug:
    """One planted bug.

    Attributes:
        name: What it is called on the command line and in the suite.
        edits: (file below src/noisegate, text that is there exactly once, text to put there).
        tests: Tests below tests/ of which at least one must fail.
    """

    name: str
    edits: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]


NOISE, GRID, BOUNDED, GATE = "privacy/noise.py", "privacy/grid.py", "privacy/bounded.py", "gate/gate.py"
SESSION, BOOKING, COUNTING = "gate/session.py", "gate/booking.py", "gate/counting.py"
PLAN, ACCOUNTING, GAUSSIAN, SUMS = "privacy/plan.py", "privacy/accounting.py", "privacy/gaussian.py", "gate/sums.py"
LEDGER, ACCOUNTS, CERTIFICATE = "privacy/ledger.py", "privacy/ledger_accounts.py", "privacy/certificate.py"
MARGINALS, MARGINAL_PLAN = "gate/marginals.py", "privacy/marginal_plan.py"
CONCENTRATED = "privacy/zero_concentrated.py"
RELEASE = "privacy/release.py"

T_NOISE, T_GRID, T_BOUNDED = "privacy/test_noise.py", "privacy/test_grid.py", "privacy/test_bounded.py"
T_GATE, T_NEIGHBOURS, T_SUMS = "gate/test_gate.py", "gate/test_neighbours.py", "gate/test_sums.py"
T_RELEASED, T_PLAN, T_GAUSSIAN = "gate/test_released_noise.py", "privacy/test_plan.py", "privacy/test_gaussian.py"
T_EDITED = "test_edited_folders.py"
T_SAID, T_ARRAYS = f"{T_EDITED}::test_what_a_certificate_may_not_say", f"{T_EDITED}::test_what_arrays_may_not_be"
T_BESIDE, T_LINKS = (
    f"{T_EDITED}::test_text_beside_arrays_is_refused",
    f"{T_EDITED}::test_a_link_in_the_folder_is_refused",
)
T_CERTIFICATE, T_RELEASE = "privacy/test_certificate.py", "privacy/test_release.py"
DISCOVERY, LEVEL_COUNTS, COUNTED = "gate/discovery.py", "gate/levels.py", "gate/exact_counts.py"
DISCOVERY_PLAN, FINDINGS, RAW = "privacy/discovery_plan.py", "gate/findings.py", "data/raw.py"
T_THRESHOLDS, T_DISCOVERY_PLAN = "privacy/test_thresholds.py", "privacy/test_discovery_plan.py"
T_DISCOVERY, T_RAW = "gate/test_discovery.py", "data/test_raw.py"
T_ALIKE = "gate/test_discovery_neighbours.py"
T_ACCOUNTING = "privacy/test_accounting.py"
COMPOSITION, STEP_LOSSES = "privacy/composition.py", "privacy/step_losses.py"
T_COMPOSITION = "privacy/test_composition.py"
T_WHOLE = f"{T_COMPOSITION}::test_events_of_all_records_are_exactly_gaussian"
T_COMPOSED = f"{T_COMPOSITION}::test_a_composition_is_above_the_exact_convolution_of_its_parts_everywhere"
T_TRANSFORM = f"{T_COMPOSITION}::test_the_error_of_the_transform_is_bounded_and_small"
T_ONE_LOSS = f"{T_COMPOSITION}::test_one_step_costs_what_high_precision_says"
T_ROUNDED_UP = f"{T_COMPOSITION}::test_probabilities_are_rounded_up_by_their_error"
T_BADLY = f"{T_COMPOSITION}::test_points_that_are_found_badly_cost_tightness_and_nothing_else"
T_LATTICE = f"{T_COMPOSITION}::test_a_step_on_the_lattice_is_never_below_the_exact_one"
T_CONCENTRATED, T_MARGINAL_PLAN = "privacy/test_zero_concentrated.py", "privacy/test_marginal_plan.py"
T_MARGINALS = "gate/test_marginals.py"
T_IN_FLIGHT = "gate/test_voided_in_flight.py"
LEDGER_TABLES, T_NAMES = "privacy/ledger_tables.py", "privacy/test_ledger_names.py"
T_MARGINALS_STOP = f"{T_MARGINALS}::test_what_opendp_says_when_it_stops_is_not_passed_on"
T_COUNTING, T_ROUNDS = "gate/test_counting.py", "gate/test_rounds.py"
PAIRWISE, DESIGN, T_DESIGN = (
    "methods/pairwise/method.py",
    "methods/pairwise/design.py",
    "methods/test_pairwise_design.py",
)
UNITS, T_UNITS, T_UNITS_GATE = "data/units.py", "data/test_units.py", "gate/test_units.py"
T_STEPS = f"{T_ACCOUNTING}::test_sampled_steps_cost_what_dp_accounting_says"
T_DISCRETE = f"{T_ACCOUNTING}::test_the_discrete_gaussian_is_charged_as_one_with_four_units_less_variance"
T_ROUNDED = f"{T_ACCOUNTING}::test_the_rounded_gaussian_is_charged_its_distance_on_every_coordinate"

GRADIENTS, POISSON, JOURNAL, LOSSES = "gate/gradients.py", "gate/poisson.py", "gate/journal.py", "gate/losses.py"
CLIPPED_ROWS = "gate/clipped_rows.py"
PER_EXAMPLE, GRADIENT_PLAN, CONVOLUTION = "gate/per_example.py", "privacy/gradient_plan.py", "privacy/convolution.py"
PROBE, EXACT, EXECUTION = "gate/gradient_probe.py", "gate/exact_products.py", "gate/execution.py"
T_EXACT, T_EXECUTION = "gate/test_exact_products.py", "gate/test_execution.py"
T_CLIPPED_ROWS = "gate/test_clipped_rows.py"
T_GRADIENTS, T_JOURNAL, T_POISSON = "gate/test_gradients.py", "gate/test_gradient_journal.py", "gate/test_poisson.py"
T_GRADIENT_NEIGHBOURS, T_GRADIENT_PLAN = "gate/test_gradient_neighbours.py", "privacy/test_gradient_plan.py"
T_CONVOLUTION = "privacy/test_convolution.py"
T_HP, T_PRODUCTS, T_ESTIMATORS = "methods/test_hp.py", "features/test_products.py", "test_estimators.py"
PRODUCTS = "features/products.py"
T_POISSON_USED = f"{T_GRADIENTS}::test_every_step_draws_a_new_sample_of_all_records"
T_ONE_STEP = f"{T_GRADIENTS}::test_a_step_is_the_clipped_sum_and_noise_of_the_planned_size"
LAYERS, VECTORS = "features/layers.py", "gate/vectors.py"
T_MEPF, T_IMAGES = "methods/test_mepf.py", "data/test_image_gate.py"
PERCEPTUAL, T_PERCEPTUAL, T_SHARING = "features/perceptual.py", "features/test_perceptual.py", "gate/test_sharing.py"
T_MEPF_NOISE = f"{T_MEPF}::test_everything_that_is_released_has_its_noise"
T_MEPF_BOUND = f"{T_MEPF}::test_the_stated_sensitivity_is_that_of_unit_vectors"
T_MGE, T_MGE_PLAN = "methods/test_mge.py", "methods/test_mge_plan.py"
T_DRE, T_REPRESENTED, T_SAME_FILES = "methods/test_dre.py", "gate/test_represented.py", "data/test_same_files.py"
CSV_RECORDS, T_CSV_RECORDS = "data/csv_records.py", "data/test_csv_records.py"
_FIXED = "np.arange(number % 2, len(numeric), 2)"


def one(name: str, file: str, old: str, new: str, *tests: str) -> Bug:
    """Returns a bug of a single edit."""
    return Bug(name, ((file, old, new),), tests)


BUGS = (
    # The noise.
    one(
        "noise-halved",
        NOISE,
        "make_gaussian(*space, scale=noise_std)",
        "make_gaussian(*space, scale=noise_std / 2)",
        T_NOISE,
    ),
    one(
        "noise-halved-at-the-gate",
        SESSION,
        "noise_std=release.noise_std,",
        "noise_std=release.noise_std / 2,",
        T_RELEASED,
    ),
    one(
        "noise-a-third-which-the-audit-sees",
        SESSION,
        "noise_std=release.noise_std,",
        "noise_std=release.noise_std / 3,",
        "auditing/test_projection.py::test_right_sums_stay_below_their_claim_and_are_seen",
    ),
    one(
        "an-audit-that-believes-the-quietest-noise",
        "auditing/measure.py",
        "loudest = {name: high for name, (_, high)",
        "loudest = {name: low for name, (low, _)",
        "auditing/test_projection.py::test_right_sums_stay_below_their_claim_and_are_seen",
    ),
    one(
        "an-audit-that-takes-rates-as-they-are-found",
        "auditing/bounds.py",
        "    return low, high\n\n\ndef sensitivity_factor(",
        "    return found / trials, found / trials\n\n\ndef sensitivity_factor(",
        "auditing/test_bounds.py",
    ),
    one("fast-noise-two-thirds", NOISE, "+ noise_std * generator", "+ noise_std / 1.5 * generator", T_NOISE),
    one(
        "counts-without-noise",
        SESSION,
        "noisy = noise.add_noise(",
        "noisy = sums if sums.shape[1] == 1 else noise.add_noise(",
        T_RELEASED,
    ),
    one(
        "noise-on-the-first-label-only",
        SESSION,
        "restore(noisy).T)",
        "restore(np.vstack([noisy[:1], sums[1:]])).T)",
        T_RELEASED,
    ),
    one("chacha-with-a-fixed-key", NOISE, "key=secrets.randbits(256)", "key=20240229", T_NOISE),
    one("discrete-noise-drawn-once", NOISE, "def _discrete_gaussian(", "@cache\ndef _discrete_gaussian(", T_NOISE),
    one(
        "same-noise-on-every-coordinate",
        NOISE,
        "np.asarray(measurement([0] * min(_CHUNK, size - start)), dtype=np.int64)",
        "np.repeat(np.asarray(measurement([0]), dtype=np.int64), min(_CHUNK, size - start))",
        T_NOISE,
    ),
    # The bound on a record's vector.
    one(
        "clip-removed",
        GRID,
        "return _clip_row(row.astype(np.float64), nonnegative)",
        "return scaled.astype(np.int64)",
        T_GRID,
    ),
    one("bound-check-skipped", GRID, "total * (1 + 2.0**-11) <= float(UNITS) ** 2", "np.isfinite(total)", T_GRID),
    one("exact-bound-check-skipped", GRID, "if squares <= UNITS * UNITS:", "if squares >= 0:", T_GRID),
    one("cut-off-part-not-counted", GRID, "coarse, coarse)) + math.sqrt(dim)", "coarse, coarse))", T_GRID),
    one("nan-not-zeroed", GRID, "if not np.isfinite(row).all():", "if not row.size:", T_GRID),
    one("nonnegative-not-enforced", GRID, "np.maximum(scaled, 0, out=scaled)", "pass", T_NEIGHBOURS),
    Bug(
        "rounding-to-nearest",
        (
            (GRID, "return scaled.astype(np.int32)", "return np.rint(scaled).astype(np.int32)"),
            (GRID, "scaled[accepted].astype(np.int32)", "np.rint(scaled[accepted]).astype(np.int32)"),
            (GRID, "exact = scaled.astype(np.int64)", "exact = np.rint(scaled).astype(np.int64)"),
        ),
        (T_GRID,),
    ),
    one("centre-forgotten", GRID, "if self.centre is not None:", "if self.centre == ():", T_GRID),
    one("table-not-checked", SUMS, "<= self.grid.bound.units**2 else None", ">= 0 else None", T_SUMS),
    # The sensitivity.
    one(
        "sensitivity-of-the-wrong-adjacency",
        BOUNDED,
        "return 2 * square if self.nonnegative else 4 * square",
        "return square",
        T_BOUNDED,
    ),
    one(
        "signed-taken-for-nonnegative",
        BOUNDED,
        "if self.nonnegative else 4 * square",
        "if True else 4 * square",
        T_NEIGHBOURS,
    ),
    one(
        "sensitivity-rounded-down",
        BOUNDED,
        "return root if root * root == square else root + 1",
        "return root",
        T_BOUNDED,
    ),
    # The sums.
    Bug(
        "padding-counted",
        ((SUMS, "vectors, block.rows(slice(first,", "vectors, padded.rows(slice(first,"),),
        (T_SUMS,),
    ),
    one(
        "labels-not-separated",
        SUMS,
        "yield int(labels[start]), slice(start, end)",
        "yield 0, slice(start, end)",
        T_SUMS,
    ),
    one(
        "independence-probe-skipped",
        SESSION,
        "chosen=map_execution(name, feature_map, layout, block_rows(feature_map))",
        "chosen=None",
        T_GATE,
    ),
    # The ledger.
    one("ledger-check-skipped", LEDGER, "if total <= cap.epsilon:", "if total >= 0:", T_GATE),
    Bug(
        "reserve-after-read",
        (
            (SESSION, "            self._booking.reserve(self._plan, self._method)\n", "            pass\n"),
            (
                SESSION,
                "                self._drawn = True\n",
                "                self._booking.reserve(self._plan, self._method)\n                self._drawn = True\n",
            ),
        ),
        (T_GATE,),
    ),
    one("paid-release-lost-with-the-ledger", BOOKING, "except Exception as error:", "except OSError as error:", T_GATE),
    one("commit-skipped", BOOKING, "self._ledger.commit(self._reservation, ", "dict(", T_GATE),
    one(
        "cost-given-back-after-the-release",
        BOOKING,
        "self._ledger.commit(self._reservation, certificate=certificate.digest())",
        'self._ledger.void(self._reservation, reason="finished")',
        T_GATE,
    ),
    one("void-after-commit", ACCOUNTS, "in (State.COMMITTED, State.VOID):", "is State.VOID:", T_GATE),
    one(
        "confirmed-cost-given-back",
        ACCOUNTS,
        "if held.state is State.CONFIRMED and",
        "if False and",
        T_GATE,
        T_IN_FLIGHT,
    ),
    one(
        "second-budget-under-a-lookalike",
        LEDGER,
        "            if alike is not None:\n",
        "            if False:\n",
        T_NAMES,
    ),
    Bug(
        "tables-of-another-schema",
        (
            (LEDGER_TABLES, "{None: self._location.schema}", "{}"),
            (LEDGER_TABLES, '"SET LOCAL search_path = pg_catalog, pg_temp"', '"SELECT 1"'),
        ),
        (T_NAMES,),
    ),
    one(
        "functions-of-another-schema",
        LEDGER_TABLES,
        '"SET LOCAL search_path = pg_catalog, pg_temp"',
        '"SELECT 1"',
        T_NAMES,
    ),
    one("sums-released-though-voided", SESSION, "                self._booking.confirm()\n", "", T_IN_FLIGHT),
    one(
        "steps-released-though-voided",
        GRADIENTS,
        "        self._booking.confirm()\n        self._drawn",
        "        self._drawn",
        T_IN_FLIGHT,
    ),
    one("schema-released-though-voided", DISCOVERY, "            self._booking.confirm()\n", "", T_IN_FLIGHT),
    one("marginals-released-though-voided", MARGINALS, "        booking.confirm()\n", "", T_IN_FLIGHT),
    one(
        "reserved-runs-cost-nothing",
        ACCOUNTS,
        "r.dataset == dataset and r.state is not State.VOID)",
        "r.dataset == dataset and r.state is State.COMMITTED)",
        T_GATE,
    ),
    # The plan and the price.
    one("epsilon-rounded-down", GAUSSIAN, "return high * (1 + _SAFETY)", "return low * (1 - _SAFETY)", T_GAUSSIAN),
    one("noise-rounded-down", GAUSSIAN, "return low * (1 - 4 * _SAFETY)", "return low * (1 + 4 * _SAFETY)", T_GAUSSIAN),
    one(
        "only-the-dearest-question-paid",
        ACCOUNTING,
        "math.sqrt(math.fsum(squares))",
        "math.sqrt(max(squares, default=0.0))",
        T_PLAN,
        T_CERTIFICATE,
    ),
    one("only-one-step-paid", ACCOUNTING, "count=event.steps)", "count=1)", T_STEPS),
    one("only-one-whole-step-paid", ACCOUNTING, "event.steps * (moved", "1 * (moved", T_WHOLE),
    one("a-replaced-record-moves-once", ACCOUNTING, "moved = 2 if adjacency", "moved = 1 if adjacency", T_WHOLE),
    one("rounding-of-the-transform-not-charged", COMPOSITION, "np.maximum(found, 0.0) + error", "found", T_COMPOSED),
    one(
        "rounding-of-products-not-bounded",
        COMPOSITION,
        "(sums + gamma))) / size",
        "gamma / size)) / size",
        T_TRANSFORM,
    ),
    one("cut-tails-not-charged", COMPOSITION, "infinite=1.01 *", "infinite=0.0 *", T_COMPOSED),
    one("only-the-present-record", COMPOSITION, "max(_epsilon(", "min(_epsilon(", T_ONE_LOSS),
    one("probabilities-not-rounded-up", STEP_LOSSES, "total = (upper + upper_error)", "total = (upper)", T_ROUNDED_UP),
    one("losses-rounded-down", STEP_LOSSES, "inner - moved", "moved", T_LATTICE),
    one("misplaced-losses-not-raised", STEP_LOSSES, "widened=widened", "widened=0.0", T_BADLY),
    one(
        "discrete-noise-paid-as-continuous",
        ACCOUNTING,
        "if event.sampler in (Sampler.DISCRETE_GAUSSIAN, Sampler.CONVOLVED_GAUSSIAN):\n        return",
        "if event.sampler is None:\n        return",
        T_DISCRETE,
    ),
    one("convolved-noise-halved", PLAN, "= reached(noise_std)", "= reached(noise_std / 2)", T_PLAN),
    one("fast-draws-chosen-for-the-price-of-one", NOISE, "cost = coordinates * ROUNDED", "cost = ROUNDED", T_NOISE),
    one("sampler-distance-not-paid", ACCOUNTING, "distance += draws * ROUNDED_DISTANCE", "distance += 0.0", T_ROUNDED),
    one("shares-not-normalised", PLAN, "question.share / total)", "question.share)", T_PLAN),
    one("cost-of-a-plan-not-checked", PLAN, "if not spent <= self.budget.epsilon:", "if spent < 0:", T_PLAN),
    one(
        "sensitivity-of-a-plan-not-checked",
        PLAN,
        "if release.sensitivity < release.question.sensitivity(self.budget):",
        "if release.sensitivity < 0:",
        T_PLAN,
    ),
    one("plan-for-another-budget", GATE, "if plan.budget != self.budget:", "if plan.budget is None:", T_GATE),
    one(
        "second-answer-for-free",
        SESSION,
        "if not self._once.acquire(blocking=False):",
        "if self._once is None:",
        T_GATE,
    ),
    one("number-of-records-not-checked", SESSION, "and records != self._public_records:", "and records < 0:", T_GATE),
    # Rounds.
    one(
        "second-round-not-in-the-price",
        PLAN,
        "return tuple(release.event for release in self.releases)",
        "return tuple(release.event for release in self.releases if not release.question.adaptive)",
        T_ROUNDS,
    ),
    one(
        "answered-after-a-refusal",
        SESSION,
        "            self._ended = True\n            raise\n",
        "            raise\n",
        T_ROUNDS,
    ),
    one("a-question-answered-twice", SESSION, "if name not in self._values)", "if name)", T_ROUNDS),
    Bug(
        "voided-after-noise",
        (
            (SESSION, "if not self._drawn:", "if not self._released:"),
            (SESSION, "                self._booking.confirm()\n", ""),
        ),
        (T_ROUNDS,),
    ),
    one(
        "noise-taken-for-drawn-too-late",
        SESSION,
        """                self._booking.confirm()
                self._drawn = True
                values = {name: _noisy(totals.sums[name], self._plan.release(name)) for name in tasks}
""",
        """                values = {name: _noisy(totals.sums[name], self._plan.release(name)) for name in tasks}
                self._booking.confirm()
                self._drawn = True
""",
        T_ROUNDS,
    ),
    one(
        "adaptive-question-of-any-size",
        SESSION,
        "feature_map.dim <= question.dim if question.adaptive",
        "feature_map.dim > 0 if question.adaptive",
        T_ROUNDS,
    ),
    one(
        "other-data-in-a-later-round",
        SESSION,
        "if self._records is not None and records != self._records:",
        "if self._records is not None and records < 0:",
        T_ROUNDS,
    ),
    # The pairwise method.
    one("every-table-at-full-weight", DESIGN, "weight = 1 / math.sqrt(len(tables))", "weight = 1.0", T_DESIGN),
    one(
        "histograms-at-full-weight",
        DESIGN,
        "return {HISTOGRAMS: self._map(self.fine, tables)} | (",
        "full = Contingency(\n"
        "            bins=self.fine, coded=self._coded, tables=tuple(tables), weights=(1.0,) * len(tables)\n"
        "        )\n"
        "        return {HISTOGRAMS: full} | (",
        T_DESIGN,
    ),
    one(
        "a-histogram-not-in-the-plan",
        DESIGN,
        "for name, histograms in self.histograms().items():",
        "for name, histograms in list(self.histograms().items())[:1]:",
        T_DESIGN,
    ),
    one("more-cells-than-planned", DESIGN, "most = most_cells(self.cells)", "most = self.cells", T_DESIGN),
    one(
        "more-pairs-than-planned",
        DESIGN,
        "return choose_pairs(_read(screen, values[SCREEN], stds[SCREEN]), most=self.most_pairs)",
        "return choose_pairs(_read(screen, values[SCREEN], stds[SCREEN]), most=2 * self.most_pairs)",
        T_DESIGN,
    ),
    one(
        "a-chosen-pair-not-in-the-plan",
        DESIGN,
        "for pair in self._screened() if pair not in self.triples)",
        "for pair in self._screened())",
        T_DESIGN,
    ),
    one(
        "cells-cut-from-the-records",
        PAIRWISE,
        "values |= session.ask(design.histograms())",
        "session.ask(design.histograms())\n"
        "                batches = list(gate._source.batches())\n"
        "                for name, one in design.histograms().items():\n"
        "                    values[name] = sum(one(batch).sum(axis=0, dtype=float) for batch in batches)[:, None]",
        T_DESIGN,
    ),
    # Counted tables.
    one(
        "weights-rounded-up",
        COUNTING,
        "np.minimum(scaled, np.float32(units + 1))",
        "np.minimum(np.ceil(scaled), np.float32(units + 1))",
        T_COUNTING,
    ),
    one("weights-not-squared", COUNTING, "sum(weight * weight for weight", "sum(weight for weight", T_COUNTING),
    one("norm-of-tables-not-checked", COUNTING, "> units * units:", "< 0:", T_COUNTING),
    one(
        "two-cells-a-record",
        COUNTING,
        "cells += weights[place] * np.bincount(work, minlength=len(cells))",
        "cells += weights[place] * np.bincount(np.concatenate([work, work[:1]]), minlength=len(cells))",
        T_COUNTING,
    ),
    one(
        "missing-values-in-the-next-table",
        "features/binning.py",
        "codes[np.isnan(values)] = self.size - 1",
        "codes[np.isnan(values)] = self.size",
        T_COUNTING,
    ),
    # Units with several records.
    one(
        "a-record-more-of-each-unit",
        UNITS,
        "+ _ranks(places, met) < self._limit.contributions",
        "+ _ranks(places, met) <= self._limit.contributions",
        T_UNITS,
    ),
    one("units-forgotten-between-batches", UNITS, "before[places] + _ranks(", "_ranks(", T_UNITS),
    one("records-of-a-batch-not-counted", UNITS, "_ranks(places, met) < self", "0 < self", T_UNITS),
    one("units-forgotten-when-the-table-grows", UNITS, "self._numbers[self._slots(keys)] = numbers", "pass", T_UNITS),
    Bug(
        "units-counted-anew-in-each-file",
        (
            (
                "data/tables.py",
                "counter = None if self._units is None else UnitCounter(self._units, self.schema.missing_values)",
                "counter = None",
            ),
            (
                "data/tables.py",
                "            done = 0\n            for arrays in origin.batches(names",
                "            done = 0\n"
                "            counter = self._units and UnitCounter(self._units, self.schema.missing_values)\n"
                "            for arrays in origin.batches(names",
            ),
        ),
        (T_UNITS,),
    ),
    one("limit-not-kept", "data/tables.py", "if used is None or used.all()", "if records", T_UNITS),
    one("units-beyond-64-bits-are-one", UNITS, "if clamped.any():", "if False:", T_UNITS),
    one(
        "a-batch-beyond-the-limit-is-an-error",
        "gate/sums.py",
        "    if not len(records):  #",
        "    if label < 0:  #",
        "gate/test_looked_up.py",
    ),
    one("records-without-a-unit", UNITS, "if pc.any(absent).as_py():", "if absent is None:", T_UNITS),
    one("hashes-with-a-fixed-key", UNITS, "lambda: secrets.token_bytes(32)", "lambda: b'noisegate'", T_UNITS),
    one(
        "units-paid-as-records",
        PLAN,
        "self.grid.bound.of_unit(budget.contributions or 1)",
        "self.grid.bound",
        T_UNITS_GATE,
    ),
    one(
        "units-under-replace-one",
        PLAN,
        "if self.contributions is not None and self.adjacency",
        "if self.contributions == 0 and self.adjacency",
        T_UNITS_GATE,
    ),
    one(
        "units-booked-as-records",
        "privacy/units.py",
        'return f"{_SEVERAL} {column.strip()}"',
        "return unit",
        T_UNITS_GATE,
    ),
    one(
        "records-booked-as-units",
        "privacy/units.py",
        "if contributions is None and",
        "if contributions == 0 and",
        T_UNITS_GATE,
    ),
    one(
        "units-of-opendp-paid-as-records",
        MARGINAL_PLAN,
        "return replaced * (self.budget.contributions or 1)",
        "return replaced",
        T_MARGINAL_PLAN,
    ),
    one(
        "tables-of-another-schema", SESSION, "or feature_map.coded != sizes:", "or feature_map.coded is None:", T_ROUNDS
    ),
    Bug(
        "subclass-counted-as-tables",
        (
            (
                SUMS,
                "if type(self.feature_map) is not Contingency or",
                "if not isinstance(self.feature_map, Contingency) or",
            ),
        ),
        (T_COUNTING,),
    ),
    one(
        "vectors-of-any-type",
        GRID,
        "if vectors.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):",
        "if vectors.dtype is None:",
        T_GRID,
    ),
    one(
        "noise-beyond-64-bits",
        NOISE,
        "if not MINIMUM_STD <= noise_std <= MAXIMUM_STD:",
        "if not MINIMUM_STD <= noise_std:",
        T_NOISE,
    ),
    one(
        "one-type-for-all-objects",
        "data/memory.py",
        "if raw in self._objects:",
        "if raw is self._objects:",
        "data/test_objects.py",
    ),
    one(
        "page-not-bound",
        "model_folder.py",
        "if page != render(certificate) and (",
        "if not page and (",
        "test_model_folder.py",
    ),
    one(
        "events-not-bound",
        "model_folder.py",
        "    _check_events(release, folder)\n    page",
        "    page",
        "test_model_folder.py",
    ),
    # What is handed out.
    one(
        "certificate-always-true",
        CERTIFICATE,
        "or recomputed > self.epsilon * (1 + 1e-9):",
        "or recomputed < 0:",
        T_CERTIFICATE,
    ),
    one(
        "hashes-not-checked",
        RELEASE,
        "or array_hashes(arrays) != certificate.hashes:",
        "or not arrays:",
        T_RELEASE,
    ),
    one(
        "any-noise-source-passes",
        CERTIFICATE,
        'if data["noise_source"] != NOISE_SOURCE:',
        'if data["noise_source"] is None:',
        T_SAID,
    ),
    one(
        "unknown-fields-pass",
        CERTIFICATE,
        "            _check_nothing_else(found.to_json(), data)\n",
        "",
        T_SAID,
    ),
    one("no-noise-passes", RELEASE, "not 0 < std[0] < math.inf", "False", T_ARRAYS),
    one("data-hidden-in-a-deviation", RELEASE, "std.shape != (1,)", "std.size < 1", T_ARRAYS),
    one("any-contributions-pass", CERTIFICATE, "and not several(self.unit)", "and not self.unit", T_SAID),
    one("text-beside-arrays-passes", RELEASE, "if file.metadata():", "if False:", T_BESIDE),
    one("links-pass", "model_folder.py", "if (folder / name).is_symlink() or not", "if not", T_LINKS),
    # Marginals that OpenDP chooses.
    one("rho-doubled", ACCOUNTING, "math.fsum(event.rho for", "math.fsum(event.rho / 2 for", T_CONCENTRATED),
    one("gaussians-beside-zcdp-not-paid", CONCENTRATED, "return mu * mu / 2", "return mu * mu / 4", T_CONCENTRATED),
    one(
        "zcdp-conversion-without-delta",
        CONCENTRATED,
        "- (math.log(delta) + math.log(alpha)) / excess",
        "- math.log(alpha) / excess",
        T_CONCENTRATED,
    ),
    one(
        "zcdp-beside-samples",
        ACCOUNTING,
        "if concentrated and (sampled or whole):",
        "if concentrated and not events:",
        T_CONCENTRATED,
    ),
    one(
        "replaced-record-paid-once", MARGINAL_PLAN, "is Adjacency.ADD_REMOVE else 2", "is None else 1", T_MARGINAL_PLAN
    ),
    one(
        "rounding-of-scores-not-paid", MARGINAL_PLAN, "return self.rho / (", "return self.rho + 0 * (", T_MARGINAL_PLAN
    ),
    one(
        "opendp-spends-twice",
        MARGINALS,
        "        plan.spendable,\n",
        "        2 * plan.spendable,\n",
        f"{T_MARGINALS}::test_opendp_finds_the_cost_of_a_neighbour_within_the_plan",
    ),
    one(
        "opendp-not-booked",
        MARGINALS,
        "    booking.reserve(plan, method)\n",
        "",
        f"{T_MARGINALS}::test_a_refusal_of_the_ledger_comes_before_the_records",
    ),
    one(
        "keys-read-off-the-records",
        MARGINALS,
        "    return np.concatenate(parts, axis=1)",
        "    return np.stack([np.unique(c, return_inverse=True)[1] for c in np.concatenate(parts, axis=1)])",
        f"{T_MARGINALS}::test_every_record_becomes_its_public_cell",
    ),
    one(
        "opendp-voided-after-noise",
        MARGINALS,
        "        booking.confirm()\n    except",
        "        _run(measure, frame, plan.name)\n    except",
        f"{T_MARGINALS}::test_when_opendp_stops_the_cost_stays_reserved",
    ),
    one(
        "message-of-opendp-passed-on", MARGINALS, "found = type(error).__name__", "found = str(error)", T_MARGINALS_STOP
    ),
    # Discovery of a schema.
    one(
        "levels-without-threshold",
        NOISE,
        "metric, scale=noise_std, threshold=threshold)",
        "metric, scale=noise_std, threshold=1)",
        f"{T_ALIKE}::test_a_record_with_a_level_of_its_own_is_nearly_never_seen_in_files",
    ),
    one(
        "level-noise-halved",
        DISCOVERY,
        "(counts * RECORD, noise_std=noise_std, threshold=threshold)",
        "(counts * RECORD, noise_std=noise_std / 2, threshold=threshold)",
        f"{T_ALIKE}::test_a_level_of_k_records_is_nearly_as_likely_to_be_seen_as_one_of_k_and_one_more",
    ),
    one(
        "threshold-from-the-data",
        DISCOVERY,
        "(counts * RECORD, noise_std=noise_std, threshold=threshold)",
        "(counts * RECORD, noise_std=noise_std, threshold=min(threshold, int(counts.max(initial=1)) * RECORD))",
        f"{T_ALIKE}::test_a_record_with_a_level_of_its_own_is_nearly_never_seen_in_files",
    ),
    one(
        "level-counted-twice",
        LEVEL_COUNTS,
        "self._counts[level] += count",
        "self._counts[level] += 2 * count",
        f"{T_ALIKE}::test_a_level_of_k_records_is_nearly_as_likely_to_be_seen_as_one_of_k_and_one_more",
    ),
    one(
        "level-counted-twice-in-integers",
        LEVEL_COUNTS,
        "self._counts[level] += count",
        "self._counts[level] += 2 * count",
        f"{T_ALIKE}::test_a_record_moves_the_exact_counts_by_at_most_the_sensitivity",
    ),
    one(
        "look-counted-twice",
        COUNTED,
        "counted.cells[name] += looks",
        "counted.cells[name] += 2 * looks",
        f"{T_ALIKE}::test_a_record_moves_the_exact_counts_by_at_most_the_sensitivity",
    ),
    one(
        "looks-without-noise",
        DISCOVERY,
        "noisy = noise.add_noise(together * RECORD,",
        "noisy = (lambda sums, **_: sums)(together * RECORD,",
        f"{T_ALIKE}::test_the_noise_on_both_looks_has_the_stated_scale",
    ),
    one(
        "bounds-from-exact-counts",
        DISCOVERY,
        "bounds.occupied(noisy[:-1], std,",
        "bounds.occupied(first.cells[name].astype(float), std,",
        f"{T_ALIKE}::test_a_record_with_an_extreme_value_hardly_moves_the_bounds",
    ),
    one(
        "order-of-levels-from-the-data",
        FINDINGS,
        "levels=(*sorted(levels), other)",
        "levels=(*levels, other)",
        f"{T_DISCOVERY}::test_bounds_and_levels_are_found",
    ),
    one(
        "kinds-from-the-values",
        RAW,
        "if not isinstance(self._origins[0], ParquetFile):",
        "if not self._origins[0].typed:",
        T_RAW,
    ),
    one(
        "record-quoted-as-header", RAW, "return self._show_values or self._origins[0].typed or", "return True or", T_RAW
    ),
    one(
        "any-rho-passes",
        "model_folder.py",
        "if not spent <= event.rho *",
        "if spent < 0 * event.rho *",
        "test_model_folder.py::test_noise_that_costs_more_than_the_stated_rho_is_noticed",
    ),
    one("a-dropped-event-passes", DISCOVERY_PLAN, "if found != expected:", "if not found:", T_DISCOVERY_PLAN),
    one("any-sensitivity-passes", DISCOVERY_PLAN, "or event.sensitivity < least:", "or least < 0:", T_DISCOVERY_PLAN),
    one("a-level-ends-a-line", FINDINGS, '.split("\\n"):  #', ".splitlines():  #", T_DISCOVERY),
    one(
        "second-look-not-booked",
        DISCOVERY_PLAN,
        "(self.magnitudes, self.cells, self.levels) if event is not None",
        "(self.magnitudes, self.levels) if event is not None",
        T_DISCOVERY_PLAN,
    ),
    one(
        "threshold-not-charged",
        ACCOUNTING,
        "    odds = threshold_odds(events)",
        "    odds = 0.0 * threshold_odds(events)",
        T_THRESHOLDS,
    ),
    one("threshold-charged-for-one-key", ACCOUNTING, "odds += event.keys * tail", "odds += tail", T_THRESHOLDS),
    one(
        "threshold-one-record-too-low",
        DISCOVERY_PLAN,
        "threshold=RECORD + 2 + math.ceil(",
        "threshold=2 + math.ceil(",
        T_DISCOVERY_PLAN,
    ),
    one(
        "discovery-voided-after-noise",
        DISCOVERY,
        "            self._booking.confirm()\n"
        "        except BaseException as error:\n            # Nothing was released",
        "            return self._finish(self._bounds(first) | self._levels(first))\n"
        "        except BaseException as error:\n            # Nothing was released",
        f"{T_DISCOVERY}::test_after_noise_was_drawn_the_cost_stays",
    ),
    # Gradients.
    one(
        "factors-not-clipped",
        GRID,
        "result[rows] = _clip_rows(",
        "result[rows] = self.scale * (",
        T_GRADIENT_NEIGHBOURS,
    ),
    one("gradients-not-clipped", CLIPPED_ROWS, "grid.norm, bounds)", "grid.norm, grid.norm)", T_GRADIENT_NEIGHBOURS),
    one(
        "norms-added-in-memory-order",
        CLIPPED_ROWS,
        "whole = np.trunc(np.ldexp(rows.astype(np.float64), bits - exponents))",
        "whole = np.ldexp(rows.astype(np.float64), bits - exponents)",
        T_CLIPPED_ROWS,
    ),
    one(
        "products-cut-off-too-late",
        EXACT,
        "bits = (53 - max(left.shape[-1] - 1, 1).bit_length()) // 2",
        "bits = 52",
        f"{T_EXACT}::test_what_is_small_beside_what_cancels_is_cut_off_in_every_order",
    ),
    one(
        "exact-kernels-not-used",
        EXECUTION,
        "return exact_products() if self.exact else nullcontext()",
        "return nullcontext()",
        f"{T_EXECUTION}::test_products_that_round_by_place_are_replaced_by_exact_ones",
    ),
    one(
        "integers-not-probed",
        PROBE,
        "if not np.array_equal(filled, together):",
        "if False:",
        f"{T_EXECUTION}::test_a_block_that_adds_something_else_than_its_records_is_refused",
    ),
    one("clipped-part-by-part", PER_EXAMPLE, "(whole, *scaled)", "(whole,)", T_GRADIENT_NEIGHBOURS),
    one(
        "half-factor-not-shrunk",
        CLIPPED_ROWS,
        "second = np.trunc(slopes * (_HALF_UNITS",
        "second = np.trunc(slopes * (2 * _HALF_UNITS",
        T_GRADIENT_NEIGHBOURS,
    ),
    one(
        "explained-cells-told-unasked",
        "cli/explaining.py",
        ".to_pylist() if show_values else None",
        ".to_pylist()",
        "cli/test_explain.py",
    ),
    one(
        "password-of-a-ledger-kept",
        "cli/run.py",
        "None if place is None or place.path is None else str(place.path)",
        "self.ledger",
        "cli/test_training.py",
    ),
    one(
        "cost-so-far-told-too-small", "cli/training.py", "min(most, total)", "min(done, total)", "cli/test_training.py"
    ),
    one(
        "any-sum-taken-for-trained",
        "model_folder.py",
        "isinstance(events.get(name), SampledGaussianEvent) and",
        "name in events and",
        "methods/test_trained.py",
    ),
    one(
        "half-changed-training-kept",
        "methods/kept_training.py",
        "if error is not None and self._whole:",
        "if error is not None:",
        "methods/test_trained.py",
    ),
    one("boundaries-compared-once", CONVOLUTION, "for _ in range(_COMPARED):", "for _ in range(1):", T_CONVOLUTION),
    one("rows-refused-too-early", GRID, "(UNITS + math.sqrt(scaled.shape[1])) ** 2", "UNITS**2 / 2", T_GRID),
    one("fixed-batches-paid-as-poisson", GRADIENTS, "poisson_sample(len(numeric), plan.rate)", _FIXED, T_POISSON_USED),
    one("sample-larger-than-paid", POISSON, "int(rate * RATES)", "int(1.5 * rate * RATES)", T_POISSON),
    one("sample-from-the-model-stream", POISSON, "secrets.token_bytes(4 * count)", "bytes(4 * count)", T_POISSON),
    one("noise-of-steps-halved", GRADIENTS, "noise_std=event.noise_std,", "noise_std=event.noise_std / 2,", T_ONE_STEP),
    one("one-step-more", GRADIENTS, "max(self._steps.plan.steps - ", "max(self._steps.plan.steps + 1 - ", T_GRADIENTS),
    one("one-step-more-of-a-journal", GRADIENTS, "if number >= plan.steps:", "if number > plan.steps:", T_JOURNAL),
    one("step-begun-not-written", JOURNAL, 'os.write(handle, b".")', "1", T_JOURNAL),
    Bug(
        "resumed-run-gives-back",
        (
            (GRADIENTS, "            self._drawn = True\n            return", "            return"),
            (GRADIENTS, "self._journal.withdraw(self._own_steps)", "self._journal.withdraw(10**9)"),
        ),
        (f"{T_JOURNAL}::test_a_resumed_run_that_fails_gives_nothing_back",),
    ),
    one("resumed-without-its-reservation", BOOKING, "if kinds not in _OPEN or", "if kinds == [] or", T_JOURNAL),
    one("padding-of-a-step-counted", GRADIENTS, "part[: len(block)] for part", "part for part", T_GRADIENTS),
    one("gradient-probe-skipped", GRADIENTS, "if not self._probed:", "if self._probed:", T_GRADIENTS),
    one("batch-norm-accepted", LOSSES, "isinstance(layer, _BatchNorm) or", "", T_GRADIENTS),
    one(
        "factor-not-shrunk",
        CLIPPED_ROWS,
        "_coarse(grid, weighted.reshape(len(slopes), -1), FACTOR_UNITS)",
        "_coarse(grid, weighted.reshape(len(slopes), -1), 2 * FACTOR_UNITS)",
        T_GRADIENT_NEIGHBOURS,
    ),
    one("factored-nan-kept", CLIPPED_ROWS, "weighted = slopes * norms", "weighted = slopes + 0", T_GRADIENT_NEIGHBOURS),
    one(
        "rate-rounded-down",
        GRADIENT_PLAN,
        "math.ceil(self.rate * RATES)",
        "max(int(self.rate * RATES), 1)",
        T_GRADIENT_PLAN,
    ),
    one(
        "gradients-paid-alone",
        GRADIENT_PLAN,
        "(*others, _event(plan, noise, sampler))",
        "(_event(plan, noise, sampler),)",
        T_GRADIENT_PLAN,
    ),
    one(
        "units-of-many-records-sampled",
        GRADIENT_PLAN,
        "budget.contributions > 1",
        "budget.contributions > 9",
        T_GRADIENT_PLAN,
    ),
    one("ties-not-resolved", CONVOLUTION, "places[tie] = bisect_right(", "bisect_right(", T_CONVOLUTION),
    one(
        "one-level-only",
        NOISE,
        "for multiplier in multipliers(noise_std):",
        "for multiplier in multipliers(noise_std)[:1]:",
        T_CONVOLUTION,
    ),
    one("levels-not-smooth", CONVOLUTION, "_SMOOTH = 2.1", "_SMOOTH = 0.3", T_CONVOLUTION),
    one(
        "convolved-distance-not-charged", ACCOUNTING, "distance += draws * _CONVOLVED_DISTANCE", "pass", T_GRADIENT_PLAN
    ),
    # Looked-up features: DP-HP.
    one(
        "class-filter-missing",
        SUMS,
        "sums[column] += quantised[members].sum(axis=0, dtype=np.int32)",
        "sums += quantised[members].sum(axis=0, dtype=np.int32)",
        f"{T_HP}::test_the_product_of_a_record_goes_to_its_own_class_alone",
    ),
    one(
        "truncated-supremum-is-a-mean",
        PRODUCTS,
        "return float(np.square(self.rows, dtype=np.float64).sum(axis=1).max())",
        "return float(np.square(self.rows, dtype=np.float64).sum(axis=1).mean())",
        T_PRODUCTS,
    ),
    one(
        "norm-forgets-the-other-columns-of-a-product",
        PRODUCTS,
        "weight**2 * math.prod(self.tables[column].squared_supremum for column in group)",
        "weight**2 * min(self.tables[column].squared_supremum for column in group) ** 9",
        T_PRODUCTS,
    ),
    one(
        "forgotten-product-release",
        PLAN,
        "return tuple(release.event for release in self.releases)",
        'return tuple(release.event for release in self.releases if release.question.name != "product-3")',
        f"{T_HP}::test_every_release_of_products_is_in_the_plan_the_ledger_and_the_certificate",
    ),
    one(
        "counted-outside-the-ball",
        "gate/occurrences.py",
        "return tuple(found) if largest <= UNITS**2 else None",
        "return tuple(found)",
        T_PRODUCTS,
    ),
    one(
        "ball-of-one-column-only",
        "gate/occurrences.py",
        "largest += len(groups) * int(",
        "largest = max(largest, 1) and int(",
        T_PRODUCTS,
    ),
    one(
        "bound-of-the-error-forgets-the-classes",
        "privacy/trade_off.py",
        "dims=(dim * question.columns,)",
        "dims=(dim,)",
        "privacy/test_trade_off.py",
    ),
    # DP-LLM as an estimator.
    one(
        "records-counted-unasked",
        "estimators.py",
        "records=self.records,",
        "records=self.records or table.num_rows,",
        T_ESTIMATORS,
    ),
    one(
        "classes-read-off-the-labels",
        "estimators.py",
        "classes = self._classes()\n        _check",
        "classes = np.unique(y).tolist()\n        _check",
        T_ESTIMATORS,
    ),
    # Perceptual features: the three leaks of DP-MEPF's public code, and what is new at the gate for them.
    one(
        "validation-embedding-without-noise",
        SESSION,
        "_noisy(totals.sums[name], self._plan.release(name)) for name in tasks}",
        "self._plan.release(name).question.grid.restore(totals.sums[name]).T if name.startswith('stopping') "
        "else _noisy(totals.sums[name], self._plan.release(name)) for name in tasks}",
        T_MEPF_NOISE,
    ),
    one(
        "exact-label-counts",
        SESSION,
        "_noisy(totals.sums[name], self._plan.release(name)) for name in tasks}",
        "self._plan.release(name).question.grid.restore(totals.sums[name]).T if name == 'counts' "
        "else _noisy(totals.sums[name], self._plan.release(name)) for name in tasks}",
        T_MEPF_NOISE,
    ),
    one(
        "second-moment-sensitivity-halved",
        BOUNDED,
        "return 2 * square if self.nonnegative",
        "return square if self.nonnegative",
        T_MEPF_BOUND,
    ),
    one(
        "moment-sensitivity-halved",
        PLAN,
        "return self.grid.bound.of_unit(budget.contributions or 1).sensitivity(budget.adjacency)",
        "return self.grid.bound.of_unit(budget.contributions or 1).sensitivity(budget.adjacency) "
        '// (2 if self.name == "second-moment" else 1)',
        f"{T_MGE_PLAN}::test_the_stated_sensitivities",
    ),
    one(
        "second-moment-without-noise",
        SESSION,
        "_noisy(totals.sums[name], self._plan.release(name)) for name in tasks}",
        "self._plan.release(name).question.grid.restore(totals.sums[name]).T if name == 'second-moment' "
        "else _noisy(totals.sums[name], self._plan.release(name)) for name in tasks}",
        f"{T_MGE}::test_everything_that_is_released_has_its_noise",
    ),
    one(
        "signed-activations-taken-for-nonnegative",
        PERCEPTUAL,
        "return self.moment == 2 or self.activations.nonnegative",
        "return True",
        f"{T_MEPF}::test_signed_activations_have_the_sensitivity_of_signed_vectors",
    ),
    one(
        "blocks-probed-with-another-number-of-rows",
        SUMS,
        "group, label, execution.rows)",
        "group, label, BLOCK_ROWS)",
        T_SHARING,
    ),
    one(
        "a-first-half-of-another-block",
        SUMS,
        """        shared: Shared = {}
        for name, task in tasks.items():
""",
        """        shared: Shared = shared if start else {}
        for name, task in tasks.items():
""",
        T_SHARING,
    ),
    one("first-halves-mixed-up", VECTORS, "if id(first) not in shared:", "if not shared:", T_SHARING),
    one(
        "network-left-in-training-mode",
        LAYERS,
        "self.network = copy.deepcopy(network, memory).requires_grad_(False).eval()",
        "self.network = copy.deepcopy(network, memory).requires_grad_(False)",
        T_PERCEPTUAL,
    ),
    # Records that a map represents, and what DP-DRE adds: its noise, and public records that are none.
    one(
        "represented-in-blocks-of-any-shape",
        "gate/represented.py",
        "if len(block) < rows else block",
        "if False else block",
        f"{T_REPRESENTED}::test_the_map_is_run_once_in_blocks_of_one_shape",
    ),
    one(
        "a-map-that-represents-is-not-probed",
        PROBE,
        "return map_execution(type(represent).__name__, represent, layout, block_rows(represent))",
        "return Execution(rows=block_rows(represent))",
        f"{T_REPRESENTED}::test_a_map_that_is_unusable_is_named_before_anything_is_spent",
    ),
    one(
        "discriminator-without-noise",
        GRADIENTS,
        "return noise.add_noise(sums, noise_std=event.noise_std, sampler=event.sampler)",
        "return sums if plan.name == 'discriminator' else noise.add_noise(\n"
        "            sums, noise_std=event.noise_std, sampler=event.sampler\n        )",
        f"{T_DRE}::test_every_sum_has_its_noise",
    ),
    one(
        "discriminator-noise-halved",
        GRADIENTS,
        "return noise.add_noise(sums, noise_std=event.noise_std, sampler=event.sampler)",
        "return noise.add_noise(\n            sums, noise_std=event.noise_std / (1 + (plan.name == 'discriminator')), "
        "sampler=event.sampler\n        )",
        f"{T_DRE}::test_every_sum_has_its_noise",
    ),
    one(
        "noise-shrunk-with-the-norm-twice",
        GRADIENTS,
        "return noise.add_noise(sums, noise_std=event.noise_std, sampler=event.sampler)",
        "return noise.add_noise(\n            sums, noise_std=event.noise_std * plan.norm / 2, sampler=event.sampler\n"
        "        )",
        f"{T_DRE}::test_noise_stands_to_the_norm_that_was_chosen_as_was_paid_for",
    ),
    one(
        "private-records-as-public-ones",
        "methods/dre/method.py",
        "gate.check_apart(self.public)",
        "self.public",
        f"{T_DRE}::test_a_public_set_that_is_the_private_one_is_refused_before_anything_is_spent",
    ),
    one(
        "copies-of-private-files-as-public-ones",
        "data/same_files.py",
        "if os.path.samefile(file, other) or _cached(file, digests) == _cached(other, digests):",
        "if file == other:",
        T_SAME_FILES,
    ),
    # What a caller gets back.
    one(
        "private-texts-in-polars-categories",
        "data/frames.py",
        "pl.col(name).cast(pl.Enum(form.levels(name)))",
        "pl.col(name).cast(pl.Categorical)",
        "data/test_frames.py::test_polars_categories_become_the_levels_of_the_schema",
    ),
    # Images as they come.
    one("a-failing-disk-skips-images", "data/images.py", "if self._skip and not failed:", "if self._skip:", T_IMAGES),
    one(
        "skipped-images-counted-by-replace-one",
        GATE,
        'self.budget.adjacency is Adjacency.REPLACE_ONE and on_error == "skip"',
        "False",
        T_IMAGES,
    ),
    one("file-names-in-errors", "data/image_folder.py", "if self.asked.show_values:", "if True:", T_IMAGES),
    one("an-image-listed-twice", "data/image_list.py", "if plain in seen:", "if False:", T_IMAGES),
    # Records of CSV files.
    one("csv-cut-inside-quotes", CSV_RECORDS, "if before % 2 == 0:", "if True:", T_CSV_RECORDS),
    one("csv-mark-at-the-start-of-a-piece", "data/csv_file.py", 'b"\\n" + piece', "piece", T_CSV_RECORDS),
    one("csv-quotes-anywhere", CSV_RECORDS, "    if astray:", "    if False:", T_CSV_RECORDS),
    one("csv-quote-never-closed", CSV_RECORDS, "(ended and len(quotes) % 2)", "False", T_CSV_RECORDS),
)


def copy(folder: Path) -> None:
    """Copies the sources, and the tests of what the guarantee rests on."""
    ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
    shutil.copytree(ROOT / "src", folder / "src", ignore=ignored)
    for room in ("auditing", "privacy", "features", "gate", "data", "methods", "cli"):
        shutil.copytree(ROOT / "tests" / room, folder / "tests" / room, ignore=ignored)
    # The bugs that the audit is tried on.
    shutil.copytree(ROOT / "benchmarks" / "audit", folder / "benchmarks" / "audit", ignore=ignored)
    for file in (
        "conftest.py",
        "kernels.py",
        "test_edited_folders.py",
        "test_estimators.py",
        "test_model_folder.py",
    ):
        shutil.copy(ROOT / "tests" / file, folder / "tests")
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "planted_witness.py").write_text(WITNESS, encoding="utf-8")


def plant(bug: Bug, folder: Path) -> None:
    """Applies a bug to the copy.

    Raises:
        ValueError: if a text is not there exactly once.
    """
    for file, old, new in bug.edits:
        path = folder / "src" / "noisegate" / file
        text = path.read_text("utf-8")
        if text.count(old) != 1:
            raise ValueError(
                f"bug {bug.name!r}: {file} has {old!r} {text.count(old)} times, not once; bring it up to date"
            )
        path.write_text(text.replace(old, new), encoding="utf-8")


def run_tests(folder: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Runs tests in the copy until the first failure."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": os.pathsep.join([str(folder), str(folder / "src")]), "OMP_NUM_THREADS": "1"}
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "planted_witness", "--tb=line"]
    command = [sys.executable, "-B", "-m", "pytest", *options, *(f"tests/{test}" for test in tests)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def check(bug: Bug | None) -> str:
    """Plants a bug in a fresh copy (None: plants nothing) and runs its tests (all).

    Returns:
        The test that found it, or how many passed.

    Raises:
        AssertionError: if the bug was not found, or the unbroken copy fails.
        ValueError: if the bug cannot be planted.
    """
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        folder = Path(name)
        copy(folder)
        tests: tuple[str, ...] = tuple(sorted({test for each in BUGS for test in each.tests}))
        if bug is not None:
            plant(bug, folder)
            tests = bug.tests
        done = run_tests(folder, tests)
    wanted = PASSED if bug is None else FAILED
    told = f"{done.stdout[-3000:]}\n{done.stderr[-2000:]}"
    if bug is not None and done.returncode == PASSED:
        raise AssertionError(f"bug {bug.name!r} was not found by {', '.join(tests)}\n{told}")
    assert done.returncode == wanted, f"exit code {done.returncode} instead of {wanted}\n{told}"
    found = re.search(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    return found[1] if found else done.stdout.strip().splitlines()[-1]


def main() -> int:
    """Checks all bugs, or those whose name contains the given text, two at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="NAME", default="", help="only the bugs whose name contains this")
    chosen = parser.parse_args().k
    jobs = {bug.name: bug for bug in BUGS if chosen in bug.name} | ({} if chosen else {UNBROKEN: None})
    if not jobs:
        parser.error(f"no bug has {chosen!r} in its name")
    missed = 0
    with ThreadPoolExecutor(2) as pool:
        for name, future in {name: pool.submit(check, bug) for name, bug in jobs.items()}.items():
            try:
                print(f"{'passes' if name == UNBROKEN else 'found '}  {name}: {future.result()}", flush=True)
            except (AssertionError, ValueError) as error:
                missed += 1
                print(f"MISSED  {name}: {error}", flush=True)
    print(f"{len(jobs) - missed} of {len(jobs)} as they should be")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Guarantee G-31: the records of a unit that count in part move counts by no more than one record does."""

import pickle
from contextlib import chdir
from functools import cache
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.csv import write_csv
from tests.shared.columns import boolean, categorical, integer
from tests.shared.sums import squared

from noisegate import Adjacency, Budget, Gate
from noisegate.errors import DataError, OptionError
from noisegate.gate.engines.ray import RayEngine
from noisegate.gate.engines.ray_round import SumJob
from noisegate.gate.sums import LocalEngine, SumTask, add_records, sum_records
from noisegate.methods.linked import Linked
from noisegate.methods.pairwise import Pairwise
from noisegate.privacy.grid import UNITS, Grid
from noisegate.privacy.plan import Query, plan_sums
from noisegate.queries.contingency import Contingency
from noisegate.queries.feature_map import Counts
from noisegate.records import WHOLE, WeightedRows
from noisegate.schema import Schema
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
from noisegate.sources.linked import LinkedSource
from noisegate.sources.spill import MEMORY_BYTES

MOST = 5
SCHEMA = LinkedSchema(
    (
        LinkedTable(
            name="people",
            key="id",
            schema=Schema([boolean("ill"), integer("age", 0, 9)]),
        ),
        LinkedTable(
            name="visits",
            parent="people",
            key="visit",
            order="day",
            most=MOST,
            schema=Schema([integer("day", 0, 99), integer("pain", 0, 3, missing=True)]),
        ),
        LinkedTable(
            name="codes",
            parent="visits",
            most=2,
            schema=Schema([categorical("code", "ab")]),
        ),
    )
)
COUNTS = (0, 1, MOST, MOST + 1, 10_000)
FEW = (0, 1, 2, 3, 700)


def family(key, visits, codes=2):
    """One person with so many visits, and each of them, in turn, with one code more, up to `codes`."""
    number = np.arange(visits)
    visit = [f"{key}.{one}" for one in number]
    belongs = np.repeat(number, number % (codes + 1))
    return {
        "people": pa.table(
            {"id": [key], "ill": [visits % 2 == 1], "age": [min(visits, 9)]}
        ),
        "visits": pa.table(
            {
                "id": pa.array([key] * visits, pa.string()),
                "visit": pa.array(visit, pa.string()),
                "day": number % 100,
            }
        ).append_column(
            "pain", pa.array([one % 4 or None for one in number.tolist()], pa.int64())
        ),
        "codes": pa.table(
            {
                "visit": pa.array([visit[one] for one in belongs], pa.string()),
                "code": pa.array(
                    ["a" if one % 2 else "b" for one in range(len(belongs))],
                    pa.string(),
                ),
            }
        ),
    }


def together(*families):
    return {
        name: pa.concat_tables([family[name] for family in families])
        for name in SCHEMA.names
    }


def task(link):
    """All single columns and all pairs of a link, of unequal weights."""
    layout = link.schema.layout
    design = next(
        design
        for design in Linked().designs(SCHEMA, 1.0)
        if design.link.name == link.name
    ).tables
    columns = range(len(layout.numeric) + len(layout.coded))
    tables = [
        (),
        *((column,) for column in columns),
        *((one, two) for one in columns for two in columns if one < two),
    ]
    weights = tuple(1.0 + index % 3 for index in range(len(tables)))
    counted = Contingency(
        bins=design.fine,
        coded=design.coded_sizes,
        tables=tuple(tables),
        weights=weights,
    )
    return SumTask(
        feature_map=counted,
        grid=Grid(norm=counted.norm, nonnegative=True),
        columns=1,
        label=None,
    )


def summed(data):
    """The exact sums of each link over all tables, before noise."""
    with LinkedSource(data, SCHEMA, key=bytes(32)) as source:
        return {
            link.name: LocalEngine(threads=1)
            .sum(source.link(link.name), {"q": task(link)}, None)
            .sums["q"][0]
            for link in SCHEMA.links
        }


OTHERS = together(
    *(family(f"other {index}", count) for index, count in enumerate((3, 0, 7, 1)))
)


@cache
def none():
    """The sums without the person in question."""
    return summed(OTHERS)


@pytest.mark.parametrize("count", [*COUNTS, *FEW])
def test_a_unit_moves_the_sums_by_no_more_than_is_stated_and_leaves_others_as_they_are(
    count,
):
    unit = family("one", count)
    alone = summed(unit)
    beside = summed(together(OTHERS, unit))
    for link in SCHEMA.links:
        moved = beside[link.name] - none()[link.name]
        assert squared(moved) <= UNITS**2
        # What it adds beside others is what it adds alone: no record of theirs was touched.
        assert np.array_equal(moved, alone[link.name])


@pytest.mark.parametrize("count", [0, 1, MOST, MOST + 1, 700])
def test_the_norm_is_used_to_the_full(count):
    """Alike children fill the bound up to rounding; a weight divided once too often would waste the signal."""
    children = pa.table(
        {"id": ["one"] * count, "visit": [str(index) for index in range(count)]}
    )
    children = children.append_column("day", pa.array([7] * count, pa.int64()))
    children = children.append_column("pain", pa.array([2] * count, pa.int64()))
    unit = {**family("one", 0), "visits": children}
    assert sum(map(int, summed(unit)["visits"])) >= 0.99 * sum(
        task(SCHEMA.links[0]).feature_map.integer_weights(task(SCHEMA.links[0]).grid)
    )


def test_counts_of_parts_are_those_of_long_hand():
    sum_task = task(SCHEMA.links[0])
    random = np.random.default_rng(0)
    sizes = [
        len(column.levels) + column.missing
        for column in SCHEMA.links[0].schema.layout.coded
    ]
    numeric = random.uniform(size=(300, len(SCHEMA.links[0].schema.layout.numeric)))
    codes = np.stack([random.integers(0, size, 300) for size in sizes], axis=1).astype(
        np.int32
    )
    records = WeightedRows(numeric, codes, random.integers(0, WHOLE + 1, 300))
    expected = np.zeros(sum_task.feature_map.dim, dtype=object)
    weights = sum_task.feature_map.integer_weights(sum_task.grid)
    cells = sum_task.feature_map.codes(records)
    for index, table in enumerate(sum_task.feature_map.tables):
        at = sum_task.feature_map.starts[index] + sum_task.feature_map.cells(
            cells, table
        )
        for cell, part in zip(at.tolist(), records.weights.tolist(), strict=True):
            expected[cell] += int(weights[index]) * part // WHOLE
    assert np.array_equal(
        sum_records(records, {"q": sum_task}).sums["q"][0], expected.astype(np.int64)
    )


@pytest.mark.parametrize(("most", "is_refused"), [(3, False), (2, True)])
def test_a_batch_whose_sums_might_be_rounded_is_refused(monkeypatch, most, is_refused):
    monkeypatch.setattr("noisegate.queries.contingency._MAX_WEIGHTED_ROWS", most)
    layout = SCHEMA.links[0].schema.layout
    records = WeightedRows(
        np.zeros((3, len(layout.numeric))),
        np.zeros((3, len(layout.coded)), dtype=np.int32),
        np.full(3, WHOLE // 4),
    )
    tasks = {"q": task(SCHEMA.links[0])}
    if is_refused:
        with pytest.raises(OverflowError, match="weighed rows"):
            sum_records(records, tasks)
    else:
        assert sum_records(records, tasks).sums["q"].any()


def test_only_counts_of_cells_take_records_in_part():
    records = WeightedRows(
        np.zeros((2, 0)), np.zeros((2, 1), dtype=np.int32), np.full(2, WHOLE // 2)
    )
    whole = SumTask(
        feature_map=Counts(),
        grid=Grid(norm=1.0, nonnegative=True),
        columns=1,
        label=None,
    )
    with pytest.raises(OptionError, match="counts in part"):
        sum_records(records, {"q": whole})
    with pytest.raises(OptionError, match="counts in part"):
        add_records(
            SimpleNamespace(count=lambda _: None, sums={}), records, {"q": whole}
        )


class WholeRecords(LocalEngine):
    """An engine that knows nothing of records that count in part."""

    in_parts = False


def test_a_gate_of_linked_tables_refuses_other_questions_before_it_reads():
    gate = Gate(OTHERS, schema=SCHEMA, epsilon=1.0)
    plan = plan_sums(gate.budget, (Query.of("counts", Counts(), columns=1, share=1.0),))
    with (
        gate.open(plan, method="linked", public={}) as session,
        pytest.raises(OptionError, match="support counts of cells only"),
    ):
        session.ask(plan.maps, link="visits")
    with pytest.raises(OptionError, match="this is a table in memory"):
        Gate(OTHERS, schema=SCHEMA, epsilon=1.0, engine=RayEngine()).open(
            plan, method="linked", public={}
        )
    with pytest.raises(OptionError, match="support counts of cells only"):
        Gate(OTHERS, schema=SCHEMA, epsilon=1.0, engine=WholeRecords()).open(
            plan, method="linked", public={}
        )


@pytest.mark.parametrize("memory_bytes", [MEMORY_BYTES, 100])
def test_workers_that_have_shares_of_the_parents_add_up_to_one_machine(
    memory_bytes, tmp_path, monkeypatch
):
    """In memory, and out of temporary files of 256 parts each."""
    for name, table in OTHERS.items():
        write_csv(table, tmp_path / f"{name}.csv")
    whole = summed(OTHERS)
    monkeypatch.chdir(tmp_path.parent)
    with LinkedSource(
        tmp_path.name, SCHEMA, key=bytes(32), memory_bytes=memory_bytes
    ) as source:
        source.check_can_be_split()
        for link in SCHEMA.links:
            rows = source.link(link.name)
            tasks = {"q": task(link)}
            parts = pickle.loads(pickle.dumps(list(rows.split_into_parts(1, 3))))
            jobs = [SumJob(tasks) for _ in parts]
            with chdir("/"):  # where a worker may be
                answers = [
                    job.add_part(number, part)
                    for number, (job, part) in enumerate(zip(jobs, parts, strict=True))
                ]
            assert sum(count > 0 for count in answers) > 1
            merged = jobs[0].merge_totals([job.total() for job in jobs])
            assert (
                merged.records == LocalEngine(threads=1).sum(rows, tasks, None).records
            )
            assert np.array_equal(merged.sums["q"][0], whole[link.name])
    (tmp_path / "visits.csv").write_text("id,visit,day,pain\n")
    with pytest.raises(DataError, match="written to after it was cut"):
        jobs[0].add_part(9, parts[0])


def test_weights_beyond_the_whole_and_joined_batches_are_refused():
    rows = np.zeros((1, 0)), np.zeros((1, 1), dtype=np.int32)
    for wrong in (-1, WHOLE + 1):
        with pytest.raises(ValueError, match="weights"):
            WeightedRows(*rows, np.array([wrong]))
    rows_in_part = WeightedRows(*rows, np.array([WHOLE]))
    assert WeightedRows.concatenate([rows_in_part]) is rows_in_part
    with pytest.raises(ValueError, match="not joined"):
        WeightedRows.concatenate([rows_in_part, rows_in_part])


@pytest.mark.parametrize(
    "option",
    [
        {"adjacency": Adjacency.REPLACE_ONE, "records": 4},
        {"unit_column": "id", "contributions": 3},
        {"unit": "patient"},
        {"on_error": "skip"},
    ],
)
def test_options_that_linked_tables_have_no_use_for_are_refused(option):
    with pytest.raises(OptionError, match=r"linked tables"):
        Gate(OTHERS, schema=SCHEMA, epsilon=1.0, **option)


def test_the_unit_is_the_first_table_s_record_and_no_other_run_may_claim_it():
    gate = Gate(OTHERS, schema=SCHEMA, epsilon=1.0)
    assert gate.budget == Budget(
        epsilon=1.0,
        unit="one record of the table people with all that belongs to it in visits, codes",
    )
    schema = SCHEMA.root.schema
    with pytest.raises(OptionError, match="linked tables"):
        Gate(
            pa.table({"ill": [True], "age": [1]}),
            schema=schema,
            epsilon=1.0,
            unit=gate.budget.unit,
        )
    with pytest.raises(OptionError, match="need one of: visits, codes"):
        Pairwise().query(
            Gate(OTHERS, schema=SCHEMA, epsilon=1.0),
            Pairwise().plan(schema, gate.budget),
        )

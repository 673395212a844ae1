"""What a plan forecasts: time of questions that no method of the command line asks alone, and error bounds."""

import pytest

from noisegate.cli.plans import show_plan
from noisegate.privacy.gradient_plan import GradientPlan
from noisegate.privacy.plan import Budget, Plan, Query
from noisegate.privacy.shard_plan import BatchPlan, ShardPlan


def planned(**options):
    question = Query(name="pairs", dim=57_600, columns=1, norm=1.0, share=1.0, nonnegative=True, **options)
    return Plan(queries=(question,)).calibrate(Budget(epsilon=1.0))


def test_tables_take_time_by_their_number_and_not_by_their_cells():
    features, tables = (planned(tables=tables).describe(10_000_000)["seconds_at_the_gate"] for tables in (None, 100))
    # 10⁷ records x 100 tables x 5 ns, and noise; not 10⁷ x 57,600 features at 4·10⁸ a second.
    assert tables == pytest.approx(5 + 0.576, rel=1e-9)
    assert features == pytest.approx(1440 + 0.576, rel=1e-9)


def test_an_adaptive_question_is_shown_with_its_largest_size(capsys):
    show_plan(planned(adaptive=True), None)
    assert "≤ 57600 x 1" in capsys.readouterr().out
    show_plan(planned(), None)
    assert "≤ 57600" not in capsys.readouterr().out
    assert [planned(adaptive=later).describe(None)["releases"][0]["adaptive"] for later in (True, False)] == [
        True,
        False,
    ]


STEPS = {"name": "s", "steps": 4, "sampling_probability": 0.5, "clip_norm": 1.0, "parameters": {"a": (6,)}}


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (GradientPlan(**STEPS), ["sums of gradients", "chance of a record", "noise / gradient", "can go on"]),
        (BatchPlan(**STEPS), ["each of a whole sample", "chance of a record", "noise / vector", "in the vector"]),
        (
            ShardPlan(**STEPS, shards=70),
            ["answers of teachers", "of a teacher to be asked", "in the answer", "taken up"],
        ),
    ],
)
def test_steps_are_told_in_the_words_of_what_they_add_up(capsys, plan, words):
    show_plan(plan.calibrate(Budget(epsilon=1.0)), 1000)
    shown = " ".join(capsys.readouterr().out.split())
    assert not [word for word in words if word not in shown], shown
    assert ("gradient" in shown) == isinstance(plan, GradientPlan)


def test_a_plan_says_whether_the_noise_drowns_the_teachers(capsys):
    """Whatever the number of steps: noise and what can be learnt grow with its root alike."""
    for steps in (1, 100):
        for shards, drowned in ((20, True), (200, False)):
            plan = ShardPlan(**{**STEPS, "steps": steps, "sampling_probability": 1.0}, shards=shards)
            show_plan(plan.calibrate(Budget(epsilon=1.0)), 1000)
            assert ("drowns the teachers" in " ".join(capsys.readouterr().out.split())) == drowned


def test_dp_merf_recommends_fewer_features_for_fewer_records(desk, cli):
    def bounds(*options):
        return cli("plan", "--epsilon", "1", "--schema", desk.schema, "--json", *options).json["error_bounds"]

    merf = ["--method", "dp-merf"]
    assert bounds(*merf) == []
    few, many = (bounds(*merf, "--records", records)[0] for records in (300, 30_000))
    assert few["least"]["value"] < few["chosen"]["value"] == 1000
    assert few["least"]["value"] < many["least"]["value"]
    assert few["chosen"]["noise"] > 100 * many["chosen"]["noise"]
    # A method without features that stand for a kernel has no such bound.
    assert bounds("--method", "pairwise", "--records", 300) == []
    shown = cli("plan", "--epsilon", "1", "--schema", desk.schema, *merf, "--records", 300)
    assert "Least at frequencies=" in " ".join(shown.out.split())


def test_dp_mepf_prints_what_noise_costs_its_generator(cli):
    asked = ["plan", "--size", "8", "--channels", "1", "--classes", "2", "--epsilon", "1", "--method", "dp-mepf"]
    both = [*asked, "--set", "moments=2", "--records"]
    (few,), (many,) = (cli(*both, records, "--json").json["error_bounds"] for records in (600, 60_000))
    assert few["queries"] == many["queries"] == ["first-moments", "second-moments"]
    assert few["largest"] == many["largest"] == pytest.approx(8, rel=0.01)
    # A squared length of the noise goes with 1/records², its product with a difference of embeddings with 1/records.
    assert few["optimistic_excess"] == pytest.approx(1e4 * many["optimistic_excess"])
    assert few["excess"] == pytest.approx(1e2 * many["excess"])
    assert many["expected"] < many["quantile"] < many["quantile_of_any"]
    shown = " ".join(cli(*both, 60_000).out.split())
    assert "(A.3, corrected)" in shown
    assert "say nothing" not in shown
    assert "these bounds say nothing at this ε" in " ".join(cli(*both, 60).out.split())
    assert cli(*asked, "--json").json["error_bounds"] == []


def test_a_share_for_the_public_page_is_one_more_question_of_the_plan(desk, cli):
    asked = ["plan", "--schema", desk.schema, "--epsilon", "1", "--json"]
    bare, more = cli(*asked).json, cli(*asked, "--report-share", "0.05").json
    assert [one["name"] for one in more["releases"]] == [*(one["name"] for one in bare["releases"]), "unfitted"]
    refused = cli(*asked[:-1], "--report-share", "0.05", "--method", "dp-merf")
    assert refused.code == 2
    assert "report_share" in refused.err
    assert cli(*asked[:-1], "--report-share", "-1").code == 2

"""What a plan forecasts: time of questions that no method of the command line asks alone, and error bounds."""

from noisegate.app.cli.show_plan import show_plan
from noisegate.methods.registry import METHODS
from noisegate.privacy.gradient_plan import plan_steps
from noisegate.privacy.plan import Budget
from noisegate.privacy.shard_plan import ShardQuery

from .conftest import argv

STEPS = {
    "name": "s",
    "steps": 4,
    "sampling_probability": 0.5,
    "clip_norm": 1.0,
    "parameters": {"a": (6,)},
}


def test_a_plan_says_whether_the_noise_drowns_the_teachers(capsys):
    """Whatever the number of steps: noise and what can be learnt grow with its root alike."""
    for steps in (1, 100):
        for shards, drowned in ((20, True), (200, False)):
            plan = ShardQuery(
                **{**STEPS, "steps": steps, "sampling_probability": 1.0}, shards=shards
            )
            show_plan(plan_steps(Budget(epsilon=1.0), plan), 1000, details=True)
            assert (
                "exceeds the teachers' signal"
                in " ".join(capsys.readouterr().out.split())
            ) == drowned


def test_a_share_for_the_public_page_is_one_more_question_of_the_plan(desk, cli):
    command = argv(f"plan --schema {desk.schema} --epsilon 1 --json")
    bare = cli(*command).json
    more = cli(*command, "--report-share", "0.05").json
    assert [release["name"] for release in more["releases"]] == [
        *(release["name"] for release in bare["releases"]),
        "unfitted",
    ]
    refused = cli(*command[:-1], "--report-share", "0.05", "--method", "dp-merf")
    assert refused.code == 2
    assert "report_share" in refused.err
    assert cli(*command[:-1], "--report-share", "-1").code == 2


def test_the_settings_of_a_method_are_listed_with_their_meaning(cli):
    settings = cli("methods joint --json").json["methods"][0]["settings"]
    assert [setting["name"] for setting in settings] == list(
        METHODS["joint"].setting_names()
    )
    assert all(setting["meaning"] for setting in settings)
    assert settings[1]["default"] == 0.01
    assert "Share of the budget" in cli("methods", "pairwise").out
    assert cli("methods", "pairwize").code == 2

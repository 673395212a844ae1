"""The manifest for KubeRay says what a run needs; by its structure, as no package index has the schema of KubeRay."""

import shlex
from pathlib import Path

import pytest
import yaml

from noisegate.app.cli.main import program

PATH = Path(__file__).parents[1] / "examples" / "kuberay.yaml"


@pytest.fixture(scope="module")
def documents():
    return {
        document["kind"]: document
        for document in yaml.safe_load_all(PATH.read_text(encoding="utf-8"))
    }


def pods(job):
    cluster = job["spec"]["rayClusterSpec"]
    return [
        group["template"]["spec"]
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])
    ]


def test_a_run_that_failed_is_not_tried_again_and_nobody_gets_in_without_a_token(
    documents,
):
    job = documents["RayJob"]["spec"]
    assert documents["RayJob"]["apiVersion"] == "ray.io/v1"
    assert job["backoffLimit"] == 0
    assert job["rayClusterSpec"]["authOptions"] == {"mode": "token"}
    policy = documents["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == {
        "ray.io/originated-from-cr-name": documents["RayJob"]["metadata"]["name"]
    }
    assert policy["policyTypes"] == ["Ingress"]


def test_all_machines_are_alike_and_see_the_records_under_one_path_and_only_to_read(
    documents,
):
    all_pods = pods(documents["RayJob"])
    assert len({str(pod["nodeSelector"]) for pod in all_pods}) == 1
    assert len({pod["containers"][0]["image"] for pod in all_pods}) == 1
    for pod in all_pods:
        (container,) = pod["containers"]
        mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
        assert mounts["data"] == {
            "name": "data",
            "mountPath": "/data",
            "readOnly": True,
        }
        assert set(mounts) == {volume["name"] for volume in pod["volumes"]}
        assert (
            container["resources"]["requests"]["memory"]
            == container["resources"]["limits"]["memory"]
        )


def test_the_head_runs_a_command_that_exists(documents):
    name, verb, *words = shlex.split(documents["RayJob"]["spec"]["entrypoint"])
    command = program().commands[verb]
    option_names = {name for option in command.params for name in option.opts}
    assert name == "noisegate"
    assert {word for word in words if word.startswith("-")} <= option_names

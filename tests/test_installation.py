"""What is built is complete: a wheel in a fresh environment runs, and a container does where one can be built."""

import shutil
import subprocess
import tarfile
import tomllib
import zipfile

import pytest
from tests.shared.wheels import PACKAGES, ROOT, build_packages, done

import noisegate

ENGINES = ("podman", "docker", "buildah")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel of each package, built from its source distribution, and that."""
    return build_packages(tmp_path_factory.mktemp("dist"))


def test_all_packages_have_one_version():
    projects = [
        tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text("utf-8"))
        for name in PACKAGES
    ]
    assert {project["project"]["version"] for project in projects} == {
        noisegate.__version__
    }
    ours = {
        need
        for project in projects
        for need in project["project"]["dependencies"]
        if need.startswith("noisegate")
    }
    assert all(need.endswith(f"=={noisegate.__version__}") for need in ours)


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGES)
def test_a_wheel_holds_what_the_program_reads(built, name):
    wheel, source = built[name]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata_text = archive.read(metadata).decode()
    tree = ROOT / "packages" / name / "src"
    files = {
        path.relative_to(tree).as_posix()
        for path in tree.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert any(not file.endswith(".py") for file in files)
    assert files - set(names) == set()
    assert len({name.partition("/")[0] for name in names}) == 2, (
        "one package and its metadata"
    )
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "License-Expression: Apache-2.0" in metadata_text
    with tarfile.open(source) as archive:
        assert any(name.endswith("/LICENSE") for name in archive.getnames())


@pytest.mark.slow
def test_the_container_passes_the_demo():
    # A client of docker may be installed without its service.
    engines = [engine for engine in ENGINES if shutil.which(engine)]
    working = [
        engine
        for engine in engines
        if subprocess.run([engine, "info"], capture_output=True).returncode == 0
    ]
    if not working:
        pytest.skip("no engine of podman, docker and buildah answers")
    engine = working[0]
    tag = "noisegate-test"
    if engine == "buildah":
        done(engine, "build", "-t", tag, "-f", "Containerfile", ".", cwd=ROOT)
        digest = done(engine, "from", tag).split()[-1]
        try:
            assert "synthetic" in done(engine, "run", digest, "--", "noisegate", "demo")
        finally:
            done(engine, "rm", digest)
        return
    done(engine, "build", "-t", tag, "-f", "Containerfile", ".", cwd=ROOT)
    assert "synthetic" in done(engine, "run", "--rm", "--network", "none", tag, "demo")
    assert done(engine, "run", "--rm", "--entrypoint", "id", tag, "-un").split() == [
        "steward"
    ]

"""Files and folders that are whole or not there."""

import os
import subprocess
import sys

import pytest

from noisegate.atomic import new_file, new_folder
from noisegate.errors import OptionError


def test_a_folder_appears_when_its_block_ends(tmp_path):
    out = tmp_path / "made"
    with new_folder(out) as folder:
        (folder / "inside").mkdir()
        (folder / "inside" / "file").write_text("x")
        assert not out.exists()
        assert folder.parent == tmp_path
    assert [path.name for path in tmp_path.rglob("*")] == ["made", "inside", "file"]


def test_two_writers_of_one_name_do_not_mix(tmp_path):
    out = tmp_path / "made"
    with pytest.raises(OptionError, match="grid="), new_folder(out, "grid") as slow:
        (slow / "slow").touch()
        with new_folder(out) as fast:
            (fast / "fast").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["made", "fast"]


def test_a_dangling_link_is_in_the_way(tmp_path):
    (tmp_path / "made").symlink_to("nothing")
    with pytest.raises(OptionError, match="exists"), new_folder(tmp_path / "made"):
        pytest.fail("the folder was made")


def test_a_file_may_take_the_place_of_another(tmp_path):
    out = tmp_path / "made"
    out.write_text("old")
    with new_file(out, force=True) as path:
        path.write_text("new")
        assert out.read_text() == "old"
        assert (
            os.name == "nt" or not path.parent.stat().st_mode & 0o077
        )  # nobody else can open it
    assert out.read_text() == "new"
    with pytest.raises(OptionError, match="exists"), new_file(out):
        pytest.fail("the file was made")


KILLED = """
import os, signal, sys
from pathlib import Path
from noisegate import atomic
making = getattr(atomic, sys.argv[1])
with making(Path("made")) as path:
    (path / "file" if path.is_dir() else path).write_text("half")
    print("here", flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no locks on folders")
@pytest.mark.parametrize("making", [new_file, new_folder])
def test_what_a_killed_process_left_is_removed_by_the_next_one_and_nothing_of_a_living_one(
    tmp_path, making
):
    command = [sys.executable, "-c", KILLED, making.__name__]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as killed:
        assert killed.stdout.readline() == b"here\n"
        names = os.listdir(tmp_path)
        with making(tmp_path / "made"):
            assert len(os.listdir(tmp_path)) == len(names) + 1, (
                "the other process lives"
            )
        killed.stdin.close()
    assert killed.returncode == -9
    assert set(names) < set(os.listdir(tmp_path))
    (tmp_path / ".made.partial").mkdir()
    with making(tmp_path / "made.csv"):
        assert set(names) < set(os.listdir(tmp_path)), "of another name"
    target = tmp_path / "made"
    target.unlink() if making is new_file else target.rmdir()
    with making(target):
        assert not set(names) & set(os.listdir(tmp_path))
    assert sorted(os.listdir(tmp_path)) == [".made.partial", "made", "made.csv"]

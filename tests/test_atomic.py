"""Files and folders that are whole or not there."""

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
    with pytest.raises(OptionError, match="--grid"), new_folder(out, "--grid") as slow:
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
    assert out.read_text() == "new"
    with pytest.raises(OptionError, match="exists"), new_file(out):
        pytest.fail("the file was made")

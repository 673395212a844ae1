"""The digest of a folder: of every name and every byte, whatever the order of the files."""

import hashlib

import pytest

from noisegate.errors import ModelError
from noisegate.networks.weights import folder_digest


def test_it_is_that_of_what_sha256sum_prints(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one").write_bytes(b"1")
    (tmp_path / "a").write_bytes(b"2")
    lines = "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in (("a", b"2"), ("b/one", b"1"))
    )
    found = folder_digest(tmp_path)
    assert found == hashlib.sha256(lines.encode()).hexdigest()
    (tmp_path / "a").rename(tmp_path / "c")
    assert folder_digest(tmp_path) != found
    (tmp_path / "c").rename(tmp_path / "a")
    assert folder_digest(tmp_path) == found
    (tmp_path / "b" / "one").write_bytes(b"3")
    assert folder_digest(tmp_path) != found


def test_an_empty_folder_has_none(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ModelError, match="there is no such folder, or it is empty"):
            folder_digest(folder)

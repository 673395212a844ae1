"""A signature says whose a folder is: of one that differs in a byte, a file or a key, nothing."""

import os
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.shared.columns import boolean

from noisegate import Schema, sign, synthesize, verify
from noisegate.app import signature
from noisegate.app.cli.main import run
from noisegate.app.signature import check_signature
from noisegate.errors import ModelError, OptionError
from noisegate.models.folder import PUBLIC_PAGE, SIGNATURE

FILES = (
    "certificate.json",
    "certificate.md",
    "generator.safetensors",
    "model.json",
    PUBLIC_PAGE,
    "release.safetensors",
)


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signed")
    schema = Schema([boolean("ill")])
    synthesize(pa.table({"ill": [True, False] * 100}), schema=schema, epsilon=1.0).save(
        folder / "model"
    )
    (folder / "model" / PUBLIC_PAGE).write_text(
        "<h1>epsilon = 1</h1>"
    )  # as noisegate-evaluate adds it
    sign(folder / "model", folder / "owner.key")
    return folder


def test_whoever_has_the_public_key_sees_whose_files_these_are(signed):
    assert check_signature(signed / "model", signed / "owner.pub") == FILES
    assert (signed / "owner.key").stat().st_mode & 0o077 == 0
    assert SIGNATURE in verify(signed / "model").others
    with pytest.raises(OptionError, match=r"signature\.json exists"):
        sign(signed / "model", signed / "owner.key")
    with pytest.raises(OptionError, match=r"signature\.json exists"):
        sign(signed / "model", signed / "new.key")
    assert not (signed / "new.key").exists()


def test_no_private_key_is_written_where_a_public_one_is_looked_for(signed, tmp_path):
    folder = shutil.copytree(signed / "model", tmp_path / "model")
    (folder / SIGNATURE).unlink()
    with pytest.raises(OptionError, match="must be an unencrypted Ed25519 private key"):
        sign(folder, signed / "owner.pub")
    with pytest.raises(OptionError, match="the public key gets this name"):
        sign(folder, tmp_path / "mine.pub")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.skipif(sys.platform == "win32", reason="no modes of files")
def test_a_key_that_others_may_have_read_signs_nothing(signed, tmp_path):
    folder = shutil.copytree(signed / "model", tmp_path / "model")
    (folder / SIGNATURE).unlink()
    key = Path(shutil.copy(signed / "owner.key", tmp_path / "owner.key"))
    key.chmod(0o604)
    with pytest.raises(
        OptionError,
        match=r"owner\.key'? is open to other users of this machine \(mode 604\)",
    ):
        sign(folder, key)
    assert not (folder / SIGNATURE).exists()


@pytest.mark.parametrize("name", [*FILES, SIGNATURE])
def test_a_flipped_byte_is_found(name, signed, tmp_path):
    folder = shutil.copytree(signed / "model", tmp_path / "model")
    content = bytearray((folder / name).read_bytes())
    for index in range(0, len(content), max(len(content) // 7, 1)):
        if not bytes(content[index : index + 1]).isspace():
            content[index] ^= 1
            (folder / name).write_bytes(content)
            with pytest.raises(ModelError):
                check_signature(folder, signed / "owner.pub")
            content[index] ^= 1


def test_another_owner_and_files_that_come_and_go_are_found(signed, tmp_path):
    folder = shutil.copytree(signed / "model", tmp_path / "model")
    (folder / SIGNATURE).unlink()
    sign(folder, tmp_path / "other.key")
    with pytest.raises(ModelError, match="not made with the key of"):
        check_signature(folder, signed / "owner.pub")
    (folder / "more").mkdir()
    (folder / "more" / "notes.txt").write_text("more")
    with pytest.raises(ModelError, match="a file was added, removed or changed"):
        check_signature(folder, tmp_path / "other.pub")
    (folder / SIGNATURE).unlink()
    with pytest.raises(ModelError, match="cannot be checked"):
        check_signature(folder, tmp_path / "other.pub")


@pytest.mark.parametrize(
    "add", [Path.mkdir, lambda path: path.symlink_to(path.parent.parent), os.mkfifo]
)
def test_what_is_added_and_is_no_file_is_found(add, signed, tmp_path):
    add(shutil.copytree(signed / "model", tmp_path / "model") / "extra")
    with pytest.raises(ModelError, match="extra is an empty folder, a link or no file"):
        check_signature(tmp_path / "model", signed / "owner.pub")


def test_a_page_that_was_made_again_or_added_differs_from_what_was_signed(
    signed, tmp_path
):
    folder = shutil.copytree(signed / "model", tmp_path / "model")
    (folder / PUBLIC_PAGE).write_text("<h1>epsilon = 0.001, verdict: excellent</h1>")
    with pytest.raises(
        ModelError,
        match=r"'public\.html' differs from what was signed; if the owner made the page",
    ):
        check_signature(folder, signed / "owner.pub")
    (folder / PUBLIC_PAGE).unlink()
    with pytest.raises(ModelError, match=r"'public\.html' differs"):
        check_signature(folder, signed / "owner.pub")
    (folder / SIGNATURE).unlink()
    sign(folder, tmp_path / "new.key")
    shutil.copy(signed / "model" / PUBLIC_PAGE, folder / PUBLIC_PAGE)
    with pytest.raises(ModelError, match=r"'public\.html' differs"):
        check_signature(folder, tmp_path / "new.pub")
    (folder / PUBLIC_PAGE).unlink()
    (folder / PUBLIC_PAGE).symlink_to(signed / "model" / PUBLIC_PAGE)
    with pytest.raises(ModelError, match="a link or no file"):
        check_signature(folder, tmp_path / "new.pub")


def test_a_signature_made_before_pages_were_signed_holds_and_the_page_is_outside(
    signed, tmp_path, monkeypatch, capsys
):
    folder = shutil.copytree(signed / "model", tmp_path / "model")
    (folder / SIGNATURE).unlink()
    with monkeypatch.context() as before:
        build_statement = signature._build_statement
        before.setattr(
            signature,
            "_build_statement",
            lambda path, covers_page: build_statement(path, covers_page=False),
        )
        sign(folder, tmp_path / "old.key")
    (folder / PUBLIC_PAGE).write_text("anything")
    assert check_signature(folder, tmp_path / "old.pub") == tuple(
        name for name in FILES if name != PUBLIC_PAGE
    )
    for public, words in (
        (tmp_path / "old.pub", "Not signed: public.html"),
        (signed / "owner.pub", None),
    ):
        monkeypatch.setattr(
            "sys.argv", ["noisegate", "verify", str(folder), "--signed-by", str(public)]
        )
        with pytest.raises(SystemExit) as ended:
            run()
        assert ended.value.code in (0, None) if words else ended.value.code == 2
        assert words is None or words in " ".join(capsys.readouterr().out.split())

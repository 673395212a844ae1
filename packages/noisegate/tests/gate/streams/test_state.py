"""The folder beside the plan of a stream: what it holds and when, who may open it, and a disk that is full."""

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from noisegate import Ledger, fit_period
from noisegate.errors import OptionError
from noisegate.gate.streams.state import StreamState
from noisegate.privacy import noise

from .conftest import AGES, EMPTY, FEBRUARY, JANUARY

POSIX = pytest.mark.skipif(
    os.name != "posix", reason="who may open a file is said in the ways of POSIX"
)


def held(folder):
    """Returns the names of the arrays in each answer of a folder, and the names of its other files."""
    answers = {path.name: sorted(np.load(path).files) for path in folder.glob("*.npz")}
    return answers, sorted(
        path.name for path in folder.iterdir() if path.name not in answers
    )


def keep_seals(folder):
    """Puts seals and the key back, as versions did that kept them."""
    for path in folder.glob("*.npz"):
        arrays = dict(np.load(path))
        np.savez(path, **({"seal": "0" * 64} | arrays))
    (folder / "key").write_bytes(bytes(32))


def test_a_seal_goes_with_its_noise_and_the_key_with_the_last_period(
    stream, tmp_path, monkeypatch
):
    monkeypatch.setattr("noisegate.privacy.continual_plan.BAND", 2)
    folder = tmp_path / "s.private"
    stream(JANUARY, FEBRUARY, schema=AGES, periods=3)
    secret = ["noise", "noisy", "seal"]
    erased = ["noisy"]
    answers, others = held(folder)
    assert {name[:4]: arrays for name, arrays in answers.items()} == {
        "0001": erased,
        "0002": secret,
    }
    assert others == ["key", "plan"]

    key = (folder / "key").read_bytes()
    keep_seals(folder)
    (folder / "key").write_bytes(key)
    with pytest.raises(OptionError, match="the records of period 2"):
        stream(FEBRUARY, start=3)
    assert all(
        arrays == erased
        for name, arrays in held(folder)[0].items()
        if name.startswith("0001")
    )

    (last,) = stream(EMPTY, start=3)
    assert len(held(folder)[0]) > 6
    assert all(arrays == erased for arrays in held(folder)[0].values())
    assert held(folder)[1] == ["plan"]

    # The last answer is given again, and nothing is compared with its records any more, nor drawn.
    monkeypatch.setattr(
        noise, "add_noise", lambda *_, **__: pytest.fail("noise was drawn again")
    )
    shutil.rmtree(tmp_path / "s3")
    (again,) = stream(JANUARY, start=3)
    assert all(
        np.array_equal(again.release.values[name], value)
        for name, value in last.release.values.items()
    )

    keep_seals(folder)
    with pytest.raises(
        OptionError, match="planned for 3 periods, and all of them are released"
    ):
        stream(EMPTY, start=4)
    assert all(arrays == erased for arrays in held(folder)[0].values())
    assert held(folder)[1] == ["plan"]


@POSIX
def test_the_folder_is_its_owners_alone_and_free_of_what_a_killed_process_left(
    tmp_path, monkeypatch, caplog
):
    (folder := tmp_path / "s.private").mkdir()
    for name in (
        "0001.pairs.npz.0123abcd",
        "key.00000000",
        "plan.89abcdef",
        "booked.json.01234567",
    ):
        (folder / name).write_bytes(b"noise")
    (folder / ".booked.json.01234567").mkdir()
    (folder / "README.txt").write_text("a file of the owner")
    for path in (folder / "README.txt", folder):
        path.chmod(0o777)
    plan = "0" * 64
    StreamState(tmp_path / "s.json").open_for_plan(plan)
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.txt",
        "key",
        "plan",
    ]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "could be opened by others (mode 0777)" in caplog.text

    caplog.clear()
    StreamState(tmp_path / "s.json").open_for_plan(plan)
    assert not caplog.text
    folder.chmod(0o750)
    monkeypatch.setattr(
        type(folder),
        "chmod",
        lambda *_: (_ for _ in ()).throw(PermissionError(errno.EPERM, "no")),
    )
    with pytest.raises(
        OptionError,
        match=r"can be opened by others \(mode 0750\), and belongs to somebody else",
    ):
        StreamState(tmp_path / "s.json").open_for_plan(plan)


@POSIX
def test_on_a_full_disk_nothing_is_answered_or_paid_for_twice(
    stream, tmp_path, monkeypatch
):
    """Each write to the folder of the stream fails once: of a file, longer or shorter, and of the folder after it."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    folder = tmp_path / "s.private"
    sync = os.fsync
    ledger.register("registry", epsilon=1.0, delta=1e-5)
    answered = {}
    failed = set()
    written = ""

    def write(handle):
        nonlocal written
        path = Path(os.path.realpath(f"/proc/self/fd/{handle}"))
        if path.parent == folder:
            written = f"{path.stem} of {os.fstat(handle).st_size} bytes"
        stage = written, path == folder
        if folder in (path, path.parent) and stage not in failed:
            failed.add(stage)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(os, "fsync", write)
    while True:
        try:
            stream(
                JANUARY,
                schema=AGES,
                periods=1,
                booked={"ledger": ledger, "dataset": "registry"},
            )
            break
        except OptionError as error:
            assert "s.private cannot be written: No space left on device" in str(error)
        assert not [
            path for path in folder.iterdir() if len(path.suffix) == 9
        ]  # nothing of what was not written whole
        for path in folder.glob("*.npz"):
            noisy = np.load(path)["noisy"]
            assert np.array_equal(answered.setdefault(path.name, noisy), noisy)
        assert ledger.show("registry")[0].spent <= 1
    history = [entry.kind.value for entry in ledger.history("registry")]
    assert len(answered) >= 3 and len(failed) >= 6 + 4 * len(
        answered
    )  # key, plan, booked.json; answered, and erased
    assert history.count("confirm") == 1
    assert history.count("commit") == 1


def test_a_stream_goes_on_at_another_place(stream, tmp_path):
    """The plan, its folder and the last model were copied, by a tool that keeps no permissions."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.register("registry", epsilon=1.0, delta=1e-5)
    stream(
        JANUARY,
        schema=AGES,
        periods=2,
        booked={"ledger": ledger, "dataset": "registry"},
    )
    (elsewhere := tmp_path / "elsewhere").mkdir()
    shutil.copy(tmp_path / "s.json", elsewhere)
    for name in ("s.private", "s1"):
        shutil.copytree(
            tmp_path / name, elsewhere / name, copy_function=shutil.copyfile
        )
        (elsewhere / name).chmod(0o755)
    (tmp_path / "ledger.sqlite").rename(elsewhere / "moved.sqlite")
    carried = {"stream": elsewhere / "s.json", "after": elsewhere / "s1"}
    with pytest.raises(
        OptionError,
        match=r"this file is not there. Where it was moved or copied, give its new place",
    ):
        fit_period(FEBRUARY, **carried)
    carried |= {"ledger": elsewhere / "moved.sqlite", "dataset": "registry"}
    with pytest.raises(OptionError, match="these are the records of period 1"):
        fit_period(JANUARY, **carried)
    assert fit_period(FEBRUARY, **carried).certificate.stream.period == 2
    history = Ledger(elsewhere / "moved.sqlite").history("registry")
    assert [entry.kind.value for entry in history] == [
        "register",
        "reserve",
        "confirm",
        "commit",
    ]

"""One file for the state of any fit or training: what is saved comes back, half a step never is."""

import pytest
import torch

from noisegate.errors import ModelError
from noisegate.models.checkpoint import Checkpoint
from noisegate_images.training.adam import NoisyDescent


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.safetensors"


def descent(start=0.0, **options):
    return NoisyDescent(
        {"w": torch.full((3,), start)},
        **{"learning_rate": 0.1, "batch": 4.0, "device": "cpu", **options},
    )


def kept(path, of):
    return Checkpoint(path, of, cure="Remove it.")


def test_what_is_saved_goes_on_with_the_same_bits(path):
    given = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    whole, first = (descent(schedule=lambda step: 0.5 ** (step // 2)) for _ in range(2))
    for gradient in given:
        whole.step({"w": gradient})
    for gradient in given[:3]:
        first.step({"w": gradient})
    kept(path, first).save()
    second = descent(9.0, schedule=lambda step: 0.5 ** (step // 2))
    kept(path, second).resume()
    for gradient in given[3:]:
        second.step({"w": gradient})
    assert torch.equal(whole.result()["w"], second.result()["w"])


def test_an_error_between_steps_saves_and_one_within_a_step_does_not(path):
    for within in (True, False):
        with pytest.raises(KeyboardInterrupt), kept(path, descent()) as checkpoint:
            if within:
                with checkpoint.step():
                    raise KeyboardInterrupt
            with checkpoint.step():
                pass
            raise KeyboardInterrupt
        assert path.exists() is not within


def test_an_end_without_an_error_leaves_nothing(path):
    with kept(path, descent()) as checkpoint, checkpoint.step():
        pass
    assert not path.exists()


def test_without_steps_in_the_journal_nothing_is_saved(path, tmp_path):
    journal = tmp_path / "journal"
    checkpoint = Checkpoint(path, descent(), cure="", journal=journal)
    checkpoint.save()
    assert not path.exists()
    journal.touch()
    checkpoint.save()
    assert path.exists()


@pytest.mark.parametrize("content", [b"no tensors", None])
def test_a_state_that_cannot_be_used_is_named_with_the_cure(path, content):
    if content is None:
        kept(
            path,
            NoisyDescent(
                {"v": torch.zeros(2)}, learning_rate=1.0, batch=1.0, device="cpu"
            ),
        ).save()
    else:
        path.write_bytes(content)
    with pytest.raises(
        ModelError, match=r"state.safetensors is broken: .*\. Remove it\."
    ):
        kept(path, descent()).resume()


def test_a_disk_that_cannot_be_written_loses_the_state_only(tmp_path):
    kept(tmp_path / "absent" / "state", descent()).save()
    kept(None, descent()).save()
    kept(None, descent()).resume()

"""From private pictures to a model: one message for what is wrong, nothing spent on it, nothing left behind."""

from noisegate_papers.training.adversarial import AdversarialTraining

from .conftest import IMAGES, said

FILES = ["certificate.json", "certificate.md", "model.json", "public.html"]
FILES += ["generator.safetensors", "release.safetensors"]


def test_a_folder_of_pictures_becomes_a_model(gallery, cli):
    before = gallery.listing()
    ended = cli(*gallery.fit())
    assert (ended.code, ended.err) == (
        0,
        "joint: the records are images of 8 x 8 x 1 pixels with 2 labels.\n",
    )
    told = said(ended.out)
    assert "noisegate sample model -n 10000 -o synthetic.parquet" in told.replace(
        f"{gallery.folder}/", ""
    )
    assert gallery.listing() == sorted(
        [*before, "model", *(f"model/{name}" for name in FILES)]
    )
    assert "pixel_0_0" not in (gallery.out / "certificate.json").read_text()
    assert cli("verify", gallery.out).code == 0
    account = gallery.account()
    assert (account.committed, account.reserved) == (1, 0)


TRAINING = [
    "--method",
    "dp-gan",
    "--records",
    "60",
    "--set",
    "steps=6",
    "--set",
    "discriminator_steps=1",
]
TRAINING = [
    *TRAINING,
    "--set",
    "sampling_probability=0.2",
    "--set",
    "batch=8",
    "--set",
    "hidden=[16]",
]


def test_a_training_stopped_between_its_steps_goes_on(gallery, cli, ctrl_c):
    base = [
        "fit",
        gallery.data,
        *IMAGES,
        "--epsilon",
        10,
        "--out",
        gallery.out,
        *TRAINING,
    ]
    base += ["--dataset", "clinic", "--ledger", gallery.ledger]
    ctrl_c(AdversarialTraining, "step", 3)
    stopped = cli(*base)
    assert stopped.code == 130, stopped.err
    assert "noisegate fit --resume" in said(stopped.err)
    again = [
        "fit",
        "--resume",
        gallery.data,
        "--out",
        gallery.out,
        "--ledger",
        gallery.ledger,
    ]
    other = cli(*again, "--size", "16", "--classes", "cat,dog")
    assert other.code == 2
    assert "What --size, --classes and the like describe differs" in said(other.err)
    assert "--on-error skip: the run began with refuse" in said(
        cli(*again, "--on-error", "skip").err
    )
    ended = cli(*again, "--size", "8", "--classes", "cat,dog")
    assert ended.code == 0, ended.err
    assert gallery.account().committed == 1
    assert not (gallery.folder / "model.partial").exists()


def _truncated(gallery):
    path = gallery.data / "dog" / "3.png"
    path.write_bytes(path.read_bytes()[:60])


def test_broken_pictures_may_be_skipped_and_what_is_redirected_is_not_told_how_many(
    gallery, cli
):
    _truncated(gallery)
    ended = cli(*gallery.fit("--on-error", "skip", "--json"))
    assert ended.code == 0, ended.err
    told = said(ended.err)
    assert (
        "Unusable images are left out. Their number is private" in told
        and "1 image" not in told
    )
    assert "skip" not in ended.out + (gallery.out / "certificate.json").read_text()
    assert cli(*gallery.fit("--on-error", "ignore")).code == 2

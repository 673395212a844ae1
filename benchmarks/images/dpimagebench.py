"""The protocol of DPImageBench for `joint` on MNIST: ResNet, WideResNet and ResNeXt that saw synthetic digits only.

    python benchmarks/images/dpimagebench.py --data DIR --out DIR [--epsilon 1 10] [--seeds 1] [--device cuda] \
        [--classifiers resnet wrn resnext] [--precision bfloat16] [--json FILE]

As in the authors' default mode (https://github.com/2019ChenGong/DPImageBench at 565f8d7, evaluation/evaluator.py and
data/dataset_loader.py), 5,000 of the 60,000 training images are kept out of the fit. `joint` with its defaults is
fitted to the other 55,000 and makes 60,000 images: 55,000 train each classifier, 5,000 can choose its epoch. The
settings of all that are theirs (`NETWORKS`, `LEARNING_RATE` and so on), the code is not.

Every epoch is scored on the 10,000 test images, and five rules choose among them: see `RULES`. The published figures
are means over the three classifiers by the rule "private", which looks at private images that no ε counts.

A fit, a set of images and a classifier that are in --out are not made again. In a training, Ctrl-C ends after the epoch
in progress, and the same command goes on from there; a second one ends at once. Scores are computed on real data,
outside the guarantee.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import torch
from harness.images import labelled_rows, synthetic_rows
from harness.options import (
    choice,
    choices,
    fail,
    needed,
    option,
    optional,
    read_options,
)
from harness.printing import print_table
from harness.results import read_json, write_json
from papers.catalogue import load
from rich.console import Console
from torch import nn

from noisegate import Gate, Synthesizer
from noisegate.errors import ModelError
from noisegate.methods.registry import method_named
from noisegate_evaluate.images import named_features
from noisegate_evaluate.metrics.frechet import frechet_distance

CLASSES, GENERATED, KEPT_OUT = 10, 60_000, 5_000
BATCH, EPOCHS, LEARNING_RATE = 256, 50, 0.01
FALL_EVERY, FALL = 20, 0.2
"""The learning rate is multiplied by the second after so many epochs each."""
AVERAGE = 0.9999
"""Highest decay of the average of the weights, which is what is scored."""
SAVED_EVERY, SEEN_AT_ONCE = 10, 1000
PUBLISHED = {1.0: 0.956, 10.0: 0.981}
"""The best of their table, DP-FETA: means of three classifiers."""
RULES = {
    "private": "highest accuracy on 5,000 private images, as published",
    "noisy": "the same, with Laplace noise of scale 1/ε on how many are right, in each epoch",
    "synthetic": "highest accuracy on 5,000 synthetic images: the only rule, with `last`, that ε covers",
    "last": "the last epoch",
    "test": "highest accuracy on the test images, of which they warn",
}


class Residual(nn.Module):
    """Adds what ``body`` makes of images to these, or to what ``past`` makes of them; ``first`` comes before both."""

    def __init__(
        self, body: nn.Module, past: nn.Module | None, first: nn.Module, last: nn.Module
    ) -> None:
        super().__init__()
        self.body, self.past, self.first, self.last = body, past, first, last

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Returns activations."""
        inside = self.first(images)
        around = images if self.past is None else self.past(inside)
        added: torch.Tensor = self.last(around + self.body(inside))
        return added


def build_resnet() -> nn.Sequential:
    """Returns a ResNet-110: three stages of 18 blocks of two convolutions (He et al., 2016)."""

    def block(entering: int, channels: int, stride: int) -> nn.Module:
        body = nn.Sequential(
            *_convolved(entering, channels, 3, stride),
            nn.ReLU(inplace=True),
            *_convolved(channels, channels, 3),
        )
        past = (
            None
            if (entering, stride) == (channels, 1)
            else nn.Sequential(*_convolved(entering, channels, 1, stride))
        )
        return Residual(body, past, nn.Identity(), nn.ReLU(inplace=True))

    layers = [
        *_convolved(1, 16, 3),
        nn.ReLU(inplace=True),
        *_stages(block, 16, (16, 32, 64), 18),
    ]
    return _started(nn.Sequential(*layers, *_scores(64)))


def build_wrn() -> nn.Sequential:
    """Returns a WRN-40-4 with dropout of 0.3 (Zagoruyko and Komodakis, 2016)."""

    def block(entering: int, channels: int, stride: int) -> nn.Module:
        body = nn.Sequential(
            *_convolved(entering, channels, 3, stride),
            nn.ReLU(inplace=True),
            nn.Dropout(0.3),
        )
        body.append(_convolution(channels, channels, 3))
        past = (
            None
            if entering == channels
            else _convolution(entering, channels, 1, stride)
        )
        return Residual(
            body,
            past,
            nn.Sequential(nn.BatchNorm2d(entering), nn.ReLU(inplace=True)),
            nn.Identity(),
        )

    layers = [_convolution(1, 16, 3), *_stages(block, 16, (64, 128, 256), 6)]
    scores = _scores(256)
    nn.init.zeros_(scores[-1].bias)
    return _started(
        nn.Sequential(*layers, nn.BatchNorm2d(256), nn.ReLU(inplace=True), *scores)
    )


def build_resnext() -> nn.Sequential:
    """Returns a ResNeXt-29, 8 x 64d (Xie et al., 2017)."""

    def block(entering: int, channels: int, stride: int) -> nn.Module:
        inner = 2 * channels
        body = nn.Sequential(*_convolved(entering, inner, 1), nn.ReLU(inplace=True))
        body.extend(
            [*_convolved(inner, inner, 3, stride, groups=8), nn.ReLU(inplace=True)]
        )
        body.extend(_convolved(inner, channels, 1))
        past = (
            None
            if entering == channels
            else nn.Sequential(*_convolved(entering, channels, 1, stride))
        )
        return Residual(body, past, nn.Identity(), nn.ReLU(inplace=True))

    layers = [
        *_convolved(1, 64, 3),
        nn.ReLU(inplace=True),
        *_stages(block, 64, (256, 512, 1024), 3),
    ]
    scores = _scores(1024)
    nn.init.kaiming_normal_(scores[-1].weight)
    nn.init.zeros_(scores[-1].bias)
    return _started(nn.Sequential(*layers, *scores))


NETWORKS: dict[str, Callable[[], nn.Sequential]] = {
    "resnet": build_resnet,
    "wrn": build_wrn,
    "resnext": build_resnext,
}


def _convolution(
    entering: int, channels: int, side: int, stride: int = 1, groups: int = 1
) -> nn.Conv2d:
    return nn.Conv2d(
        entering,
        channels,
        side,
        stride=stride,
        padding=side // 2,
        groups=groups,
        bias=False,
    )


def _convolved(
    entering: int, channels: int, side: int, stride: int = 1, groups: int = 1
) -> tuple[nn.Module, ...]:
    return _convolution(entering, channels, side, stride, groups), nn.BatchNorm2d(
        channels
    )


def _stages(
    block: Callable[[int, int, int], nn.Module],
    entering: int,
    widths: tuple[int, ...],
    blocks: int,
) -> Iterator[nn.Module]:
    for stage, channels in enumerate(widths):
        for place in range(blocks):
            yield block(entering, channels, 2 if stage and not place else 1)
            entering = channels


def _scores(entering: int) -> tuple[nn.Module, nn.Module, nn.Linear]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(entering, CLASSES)


def _started(network: nn.Sequential) -> nn.Sequential:
    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
    return network


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Images on a device, uint8, and their labels."""

    pixels: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def on(cls, device: torch.device, pixels: np.ndarray, labels: np.ndarray) -> Shown:
        """Puts (rows, height, width, channels) on a device as (rows, channels, height, width)."""
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous().to(device)
        return cls(
            pixels=images, labels=torch.from_numpy(labels.astype(np.int64)).to(device)
        )

    def batch(self, places: torch.Tensor | slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns images in [-1, 1] and labels."""
        images = self.pixels[places].float() / 127.5 - 1
        return images.contiguous(memory_format=torch.channels_last), self.labels[places]


class Averaged:
    """The weights of a network averaged over steps, the older the less; what it normalises by is not averaged."""

    def __init__(self, network: nn.Module) -> None:
        self.weights: list[torch.Tensor] = list(network.parameters())
        self.steps = 0
        self.means = [weight.detach().clone() for weight in self.weights]

    @torch.no_grad()
    def step(self) -> None:
        """Takes in the weights as they are."""
        self.steps += 1
        decay = min(AVERAGE, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(self.means, self.weights, 1 - decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Puts the averages in the place of the weights, or back."""
        for mean, weight in zip(self.means, self.weights, strict=True):
            kept = weight.clone()
            weight.copy_(mean)
            mean.copy_(kept)


class Classifier:
    """One network in training: as many epochs as it has had, and what each was right of."""

    def __init__(self, name: str, seed: int, options: argparse.Namespace) -> None:
        torch.manual_seed(seed)
        self.seed, self.device = seed, torch.device(options.device)
        self.network = (
            NETWORKS[name]().to(self.device).to(memory_format=torch.channels_last)
        )
        self.fast = (
            torch.compile(self.network, dynamic=False)
            if options.compile
            else self.network
        )
        fused = self.device.type == "cuda"
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=LEARNING_RATE, fused=fused
        )
        self.average, self.half = (
            Averaged(self.network),
            options.precision == "bfloat16",
        )
        self.history: list[dict[str, float]] = []

    def epoch(self, train: Shown, scored: dict[str, Shown]) -> None:
        """Trains for one epoch, and scores the averaged weights."""
        started, done = time.perf_counter(), len(self.history)
        self.optimizer.param_groups[0]["lr"] = LEARNING_RATE * FALL ** (
            done // FALL_EVERY
        )
        random = torch.Generator().manual_seed(1000 * self.seed + done)
        self.network.train()
        for places in torch.split(
            torch.randperm(len(train.labels), generator=random).to(self.device), BATCH
        ):
            images, labels = train.batch(places)
            with self._precision():
                # A last batch that is smaller would be compiled anew.
                logits = (self.fast if len(labels) == BATCH else self.network)(images)
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(logits.float(), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.average.step()
        self.network.eval()
        self.average.swap()
        figures = {name: self._accuracy(rows) for name, rows in scored.items()}
        self.average.swap()
        self.history.append(
            {**figures, "seconds": round(time.perf_counter() - started, 2)}
        )

    def _precision(self) -> Any:
        return (
            torch.autocast(self.device.type, torch.bfloat16)
            if self.half
            else nullcontext()
        )

    def _accuracy(self, rows: Shown) -> float:
        right = torch.zeros((), dtype=torch.long, device=self.device)
        with torch.inference_mode(), self._precision():
            for at in range(0, len(rows.labels), SEEN_AT_ONCE):
                images, labels = rows.batch(slice(at, at + SEEN_AT_ONCE))
                right += (self.network(images).argmax(dim=1) == labels).sum()
        return right.item() / len(rows.labels)

    def save(self, path: Path) -> None:
        """Writes all that it takes to go on; dropout alone draws anew."""
        held: dict[str, Any] = {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        held |= {
            "means": self.average.means,
            "steps": self.average.steps,
            "history": self.history,
        }
        torch.save(held, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def load(self, path: Path) -> None:
        """Goes on from what was written."""
        held = torch.load(path, map_location=self.device, weights_only=True)
        self.network.load_state_dict(held["network"])
        self.optimizer.load_state_dict(held["optimizer"])
        for mean, kept in zip(self.average.means, held["means"], strict=True):
            mean.copy_(kept)
        self.average.steps, self.history = held["steps"], held["history"]


class Told:
    """Whether to stop after the epoch in progress: Ctrl-C within its context says so, and the next one ends at once."""

    stop = False

    def __enter__(self) -> None:
        signal.signal(signal.SIGINT, self._hear)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _hear(self, *_: Any) -> None:
        self.stop = True
        signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> int:
    """Runs what is not done; 0 when all is, 130 when told to stop."""
    options, console, told = _options(), Console(highlight=False), Told()
    options.out.mkdir(parents=True, exist_ok=True)
    real = _real(options)
    rows = []
    for epsilon in options.epsilon:
        for seed in range(options.seeds):
            folder = options.out / f"{epsilon:g}-{seed}"
            folder.mkdir(exist_ok=True)
            made = _made(options, real, epsilon, seed, folder, console)
            for name in options.classifiers:
                if not told.stop:
                    _train(name, options, real, made, seed, folder, told, console)
            rows.append(_row(folder, epsilon, seed))
            write_json(options.json, rows, indent=1)
            if told.stop:
                return 130
    _print(rows)
    return 0


@dataclass(frozen=True, kw_only=True)
class Real:
    """MNIST: records to fit to, and images to score by."""

    fitted: pa.Table
    schema: Any
    private: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def _real(options: argparse.Namespace) -> Real:
    loaded = load("mnist", options.data)
    # As random_split with seed 0, which is what they call; the order of their files may be another.
    order = torch.randperm(
        len(loaded.train), generator=torch.Generator().manual_seed(0)
    ).numpy()
    kept, out = np.sort(order[:-KEPT_OUT]), order[-KEPT_OUT:]
    private, test = (
        loaded.train.take(out[: options.images]),
        loaded.test.slice(0, options.images),
    )
    fitted = loaded.train.take(kept)
    return Real(
        fitted=fitted,
        schema=loaded.schema,
        private=_pixels(private),
        test=_pixels(test),
    )


def _pixels(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    rows = labelled_rows(table)
    return rows.features, rows.labels


def _made(
    options: argparse.Namespace,
    real: Real,
    epsilon: float,
    seed: int,
    folder: Path,
    console: Console,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns synthetic images and labels, made now or read."""
    model, found, figures = folder / "model", folder / "images.npz", folder / "fit.json"
    if not model.exists():
        started = time.perf_counter()
        gate = Gate(
            real.fitted, schema=real.schema, epsilon=epsilon, adjacency="add-remove"
        )
        settings = {"image": (28, 28, 1), "seed": seed, **options.settings}
        method_named("joint")(**settings).fit(gate, device=options.device).save(model)
        held = {
            "seconds": round(time.perf_counter() - started, 1),
            "device": options.device,
        }
        figures.write_text(json.dumps(held) + "\n", encoding="utf-8")
        console.print(f"ε = {epsilon:g}, seed {seed}: fitted in {held['seconds']} s")
    if not found.exists():
        synthesizer = Synthesizer.load(model)
        drawn = synthetic_rows(synthesizer, options.images, seed=seed)
        pixels, labels = drawn.features, drawn.labels
        held = read_json(figures, {})
        held |= {
            "certified_epsilon": synthesizer.certificate.epsilon,
            "settings": options.settings,
        }
        held |= {
            "fitted_to": real.fitted.num_rows,
            "distances": _distances(pixels, _pixels(real.fitted)[0], console),
        }
        write_json(figures, held, indent=1)
        np.savez_compressed(folder / "images.new.npz", pixels=pixels, labels=labels)
        (folder / "images.new.npz").replace(found)
    with np.load(found) as both:
        return both["pixels"], both["labels"]


def _distances(
    synthetic: np.ndarray, real: np.ndarray, console: Console
) -> dict[str, float]:
    """Returns Fréchet distances to the images that were fitted to; the FID where weights of Inception-v3 are here."""
    distances = {}
    for name in ("encoder", "inception-v3"):
        try:
            features = named_features(name)
        except ModelError as error:
            console.print(f"no FID: {error}")
            continue
        distances[features.name] = frechet_distance(features(synthetic), features(real))
    return distances


def _train(
    name: str,
    options: argparse.Namespace,
    real: Real,
    made: tuple[np.ndarray, np.ndarray],
    seed: int,
    folder: Path,
    told: Told,
    console: Console,
) -> None:
    """Trains a classifier for the epochs that it has not had; its figures are written after each."""
    found, kept = folder / f"{name}.json", folder / f"{name}.pt"
    if (
        found.exists()
        and len(json.loads(found.read_text("utf-8"))["history"]) >= options.epochs
    ):
        return
    device = torch.device(options.device)
    torch.backends.cudnn.benchmark = True
    order = np.random.default_rng(0).permutation(len(made[0]))
    cut = round(len(order) * (GENERATED - KEPT_OUT) / GENERATED)
    put = partial(Shown.on, device)
    train, held = (
        put(made[0][part], made[1][part]) for part in (order[:cut], order[cut:])
    )
    scored = {"private": put(*real.private), "synthetic": held, "test": put(*real.test)}
    classifier = Classifier(name, seed, options)
    if kept.exists():
        classifier.load(kept)
    with told:
        while len(classifier.history) < options.epochs and not told.stop:
            classifier.epoch(train, scored)
            last, done = classifier.history[-1], len(classifier.history)
            kind = {
                "classifier": name,
                "of": options.epochs,
                "precision": options.precision,
                "device": _device(device),
            }
            write_json(found, {**kind, "history": classifier.history}, indent=1)
            console.print(
                f"{folder.name} {name} {done}: test {last['test']:.4f}, {last['seconds']:.1f} s"
            )
            if told.stop or done % SAVED_EVERY == 0:
                classifier.save(kept)


def _device(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def chosen(
    history: list[dict[str, float]], epsilon: float, seed: int
) -> dict[str, float]:
    """Returns the accuracy on the test images by each of `RULES`; of equals the later epoch, as there."""
    right = np.array(
        [
            [epoch[name] for name in ("private", "synthetic", "test")]
            for epoch in history
        ]
    )
    private, synthetic, test = right.T
    noise = np.random.default_rng([seed, len(history)]).laplace(
        scale=1 / epsilon, size=len(history)
    )
    ways = {
        "private": private,
        "noisy": private + noise / KEPT_OUT,
        "synthetic": synthetic,
    }
    ways |= {"last": np.arange(len(history)), "test": test}
    return {
        rule: float(test[np.flatnonzero(ways[rule] == ways[rule].max())[-1]])
        for rule in RULES
    }


def _row(folder: Path, epsilon: float, seed: int) -> dict[str, Any]:
    """Returns what is known of one fit: accuracy by classifier and rule, and the means over classifiers."""
    row: dict[str, Any] = {
        "epsilon": epsilon,
        "seed": seed,
        "fit": json.loads((folder / "fit.json").read_text("utf-8")),
    }
    row["classifiers"] = {}
    for name in NETWORKS:
        if (folder / f"{name}.json").exists():
            held = json.loads((folder / f"{name}.json").read_text("utf-8"))
            history = held.pop("history")
            held |= {
                "epochs": len(history),
                "seconds": round(sum(epoch["seconds"] for epoch in history), 1),
            }
            row["classifiers"][name] = {**held, **chosen(history, epsilon, seed)}
    if len(row["classifiers"]) == len(NETWORKS):
        every = row["classifiers"].values()
        row["mean"] = {
            rule: round(statistics.fmean(one[rule] for one in every), 5)
            for rule in RULES
        }
    return row


def _print(rows: list[dict[str, Any]]) -> None:
    lines = []
    for row in rows:
        level = [f"{row['epsilon']:g}", row["seed"]]
        for name, figures in row["classifiers"].items():
            epochs = f"{figures['epochs']} of {figures['of']}"
            scores = [f"{figures[rule]:.4f}" for rule in RULES]
            lines.append([*level, name, epochs, *scores, ""])
        if "mean" in row:
            scores = [f"{row['mean'][rule]:.4f}" for rule in RULES]
            published = PUBLISHED.get(row["epsilon"], "")
            lines.append([*level, "mean", "", *scores, published])
    headings = ["ε", "seed", "classifier", "epochs", *RULES, "published"]
    print_table("DPImageBench", headings, lines, n_left=len(headings))


def _options() -> argparse.Namespace:
    options = read_options(
        __doc__,
        data=needed(Path),
        out=needed(Path),
        epsilon=[1.0, 10.0],
        seeds=1,
        classifiers=choices(list(NETWORKS)),
        device="cuda" if torch.cuda.is_available() else "cpu",
        precision=choice(["float32", "bfloat16"]),
        compile=option(False, "compile the networks; takes a minute, saves more"),
        json=optional(Path),
        epochs=EPOCHS,
        images=GENERATED,
        settings={},
    )
    if min(options.seeds, options.epochs) < 1 or options.images < 100:
        fail("--seeds and --epochs must be at least 1, --images at least 100")
    return options


if __name__ == "__main__":
    sys.exit(main())

"""Locally linear maps: several linear maps for each class, weighed by how strongly each answers to a record.

The score of class k is f_k(x) = Σ_m σ_mk(x)·g_mk(x), with g_mk(x) = w_mk·x + b_mk and σ_mk the softmax over m of g_mk/T
("Interpretable and Differentially Private Predictions", equation 3, with T = 1/β). A second softmax gives
probabilities (equation 5). With a `Projection` (section 3.1) the m-th map of every class is trained on R_m x.

The score of class k is f_k(x) = Σ_m σ_mk(x)·g_mk(x), with g_mk(x) = w_mk·x + b_mk and
σ_mk the softmax over m of g_mk/T ("Interpretable and Differentially Private
Predictions", equation 3, with T = 1/β). A second softmax gives probabilities (equation
5). Near a record the score is about linear, so the weighed maps explain the prediction,
and the maps of a class show what it answers to anywhere.

A `Projection` gives each map fewer numbers to train, so less noise in each step: the
m-th map of every class sees R_m x with R_m fixed, public and Gaussian, and a constant
beside it (section 3.1). What was trained on it is a linear map of x all the same, and
that is what is kept. `reasons` and `answers` say why, above the mean of the other
classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.errors import ModelError, OptionError
from noisegate.models.folder import (
    CLASSIFIER,
    NETWORK_CLASSIFIER,
    read_model,
    write_model,
)
from noisegate.schema import EncodedTable
from noisegate_papers.models.inputs import inputs_of
from noisegate_papers.models.released_classifier import ReleasedClassifier

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

Array = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]
_ROWS = 4096


def locally_linear_scores(
    answers: Float[Tensor, "*records maps classes"], temperature: float
) -> Float[Tensor, "*records classes"]:
    """Returns the score of each class, of what its maps answer: with a higher T, more maps have a say."""
    import torch

    return (torch.softmax(answers / temperature, dim=-2) * answers).sum(dim=-2)


@dataclass(frozen=True, kw_only=True, repr=False)
class LocallyLinear(ReleasedClassifier):
    """A trained classifier with its release; it holds no record, and predictions cost no privacy.

    `weights` are w, (maps, classes, inputs), `bias` b, (maps, classes), and `temperature` T.
    """

    weights: Array
    bias: Array
    temperature: float

    def scores(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        """Returns f, (rows, classes), at records that are encoded by the schema without its label."""
        parts = [
            locally_linear_scores(answers, self.temperature).numpy()
            for answers in self._answers(records)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.classes)))

    def importance(
        self, records: EncodedTable, *, of: npt.NDArray[np.int64] | None = None
    ) -> Array:
        """Returns σ: the weight of each map of one class, the predicted one for None, (rows, maps); rows sum to 1."""
        import torch

        of = self.predictions(records) if of is None else of
        parts = [np.zeros((0, len(self.weights)))]
        for start, answers in zip(
            range(0, len(records), _ROWS), self._answers(records), strict=True
        ):
            weights = torch.softmax(answers / self.temperature, dim=-2).numpy()
            parts.append(weights[np.arange(len(weights)), :, of[start : start + _ROWS]])
        return np.concatenate(parts).astype(np.float32)

    def explain(
        self, records: EncodedTable, *, of: npt.NDArray[np.int64] | None = None
    ) -> Array:
        """Returns the weighed map Σ_m σ_mk(x)·w_mk of one class k at each record, (rows, inputs): why that class."""
        # An entry says how much the class gains while its column goes from its lower to its upper bound, or while the
        # level comes up, with σ as it is at the record. For `of` see `importance`.
        of = self.predictions(records) if of is None else of
        weights = self.importance(records, of=of)
        maps = np.zeros((len(records), self.weights.shape[2]), dtype=np.float32)
        for k in np.unique(of):
            maps[of == k] = weights[of == k] @ self.weights[:, k]
        return maps * self.inputs.gradients

    def filters(self, label: str | int | bool) -> Array:
        """Returns every map of a class, (maps, inputs), in the units of `explain`: what the class answers to."""
        if label not in self.classes:
            raise OptionError(
                f"label={label!r} is not a class; choose one of {list(self.classes)}."
            )
        return np.asarray(
            self.weights[:, self.classes.index(label)] * self.inputs.gradients
        )

    def save(self, folder: str | Path) -> Path:
        """Writes the classifier into the new folder `folder`: safetensors and JSON, no pickle."""
        model = {
            "kind": CLASSIFIER,
            "temperature": self.temperature,
            "centre": self.inputs.centre,
        }
        tensors = {"weights": self.weights, "bias": self.bias}
        return write_model(
            Path(folder), release=self.release, tensors=tensors, model=model
        )

    @staticmethod
    def load(folder: str | Path) -> LocallyLinear:
        """Returns the classifier that `save` wrote, after checking every hash; a ModelError if there is none."""
        release, tensors, description = read_model(Path(folder))
        if description.get("kind") == NETWORK_CLASSIFIER:
            raise ModelError(
                f"{folder} holds a network, which has no linear maps that explain it: `noisegate predict` asks it for "
                "labels, and load_classifier(...).module is the network, for what explains networks from outside."
            )
        if description.get("kind") != CLASSIFIER:
            why = "`noisegate sample` and Synthesizer.load take it."
            raise ModelError(
                f"{folder} holds a model of records, which predicts no label: {why}"
            )
        layout = release.schema.layout
        try:
            inputs = inputs_of(release.schema, centre=float(description["centre"]))
            classes = () if layout.label is None else layout.coded[layout.label].levels
            weights, bias = (
                np.asarray(tensors[name], np.float32) for name in ("weights", "bias")
            )
            if (
                not classes
                or bias.ndim != 2
                or weights.shape != (len(bias), len(classes), len(inputs.names))
            ):
                raise ValueError(
                    f"weights of shape {weights.shape} do not fit the schema"
                )
            if bias.shape != weights.shape[:2]:
                raise ValueError(f"biases of shape {bias.shape} do not fit the weights")
            temperature = float(description["temperature"])
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
        ) as error:
            raise ModelError(
                f"{folder}: the classifier cannot be rebuilt: {error}"
            ) from None
        return LocallyLinear(
            weights=weights,
            bias=bias,
            temperature=temperature,
            classes=classes,
            inputs=inputs,
            release=release,
        )

    def _answers(self, records: EncodedTable) -> Iterator[Tensor]:
        """Yields g for some records after the other, (rows, maps, classes)."""
        import torch

        maps, classes, size = self.weights.shape
        # In float64, so that the predictions for a record hardly depend on the records beside it.
        weights = torch.from_numpy(self.weights.reshape(-1, size).astype(np.float64)).T
        for start in range(0, len(records), _ROWS):
            part = records.rows(slice(start, start + _ROWS))
            inputs = self.inputs(
                torch.from_numpy(part.numeric), torch.from_numpy(part.codes)
            )
            yield (inputs @ weights).reshape(-1, maps, classes) + torch.from_numpy(
                self.bias
            )


@dataclass(frozen=True, kw_only=True)
class Reasons:
    """What the score of one class is made of, at some records."""

    columns: tuple[str, ...]  # by name, numeric ones first
    adds: Values  # to the class, less what a column adds to the others on average, (records, columns)
    rest: Values  # the same of what no column says, (records,)


def reasons(
    classifier: LocallyLinear, records: EncodedTable, *, of: npt.NDArray[np.int64]
) -> Reasons:
    """Returns what scores of the classes at `of` are made of: in all, what they are above the mean of the others'."""
    import torch

    inputs, layout = classifier.inputs, classifier.release.schema.layout
    names = [
        column.name
        for column in (*layout.numeric, *(layout.coded[j] for j in layout.others))
    ]
    # For each input, its column.
    coded = np.repeat(np.arange(len(inputs.coded)), inputs.coded) + inputs.numeric
    belongs = np.eye(len(names))[[*range(inputs.numeric), *inputs.absent, *coded]]
    seen = inputs(
        torch.from_numpy(records.numeric), torch.from_numpy(records.codes)
    ).numpy()
    classes, rows = len(classifier.classes), len(records)
    adds, rest = np.zeros((classes, rows, len(names))), np.zeros((classes, rows))
    for k in range(classes):
        weights = classifier.importance(records, of=np.full(rows, k)).astype(np.float64)
        adds[k] = (weights @ classifier.weights[:, k] * seen) @ belongs
        rest[k] = weights @ classifier.bias[:, k]
    return Reasons(columns=tuple(names), adds=_above(adds, of), rest=_above(rest, of))


def answers(
    classifier: LocallyLinear, label: str | int | bool
) -> tuple[Values, Values]:
    """Returns what a class answers to by each input, as `filters`: its maps' mean less the others', and their std."""
    maps = np.stack([classifier.filters(one) for one in classifier.classes]).astype(
        np.float64
    )
    own = classifier.filters(label)
    means = maps.mean(axis=1)[:, None]
    return _above(means, np.array([classifier.classes.index(label)]))[0], own.std(
        axis=0
    ).astype(np.float64)


def _above(values: Values, of: npt.NDArray[np.int64]) -> Values:
    """Returns, of (classes, rows, …), each row of its class less the mean of that row over the other classes."""
    own = values[of, np.arange(len(of))]
    return np.asarray(own - (values.sum(axis=0) - own) / (len(values) - 1))


@dataclass(frozen=True, kw_only=True, eq=False)
class Projection:
    """Maps the inputs of a record to what the maps of a class are trained on."""

    matrices: (
        Array | None
    )  # R, (maps, dimensions, inputs); None where every map sees the inputs as they are
    maps: int
    size: int  # of the inputs
    constant: float  # stands beside them, so that its weight is the bias
    level: int = 0  # how many inputs, the first ones, have their mean made as short as one of them

    def shape(self, classes: int) -> tuple[int, int, int]:
        """Returns the shape of what is trained: groups that see the same, maps and classes of a group, dimensions."""
        if self.matrices is None:
            return 1, self.maps * classes, self.size + 1
        return self.maps, classes, self.matrices.shape[1] + 1

    def __call__(
        self, inputs: Float[Tensor, " inputs"]
    ) -> Float[Tensor, "groups dimensions"]:
        """Returns what the maps are trained on, for the inputs of one record."""
        import torch

        inputs = self._levelled(inputs)
        if self.matrices is None:
            seen = inputs[None]
        else:
            flat = torch.from_numpy(self.matrices.reshape(-1, self.size)).to(
                inputs.device
            )
            seen = (flat @ inputs).reshape(self.maps, -1)
        return torch.cat([seen, torch.full_like(seen[:, :1], self.constant)], dim=1)

    def unfold(self, trained: Array) -> tuple[Array, Array]:
        """Returns the maps on the inputs, (maps, classes, inputs), and their biases, of what was trained in `shape`."""
        parts = trained.reshape(self.maps, -1, trained.shape[-1])
        weights, bias = parts[:, :, :-1], parts[:, :, -1] * np.float32(self.constant)
        if self.matrices is not None:
            weights = weights @ self.matrices
        # Taking less of it is linear and its own transpose, so that it may be done to the weights instead.
        weights = self._levelled(weights).numpy()
        return np.ascontiguousarray(weights), bias

    def _levelled(
        self, values: Float[Tensor | Array, "*rows size"]
    ) -> Float[Tensor, "*rows size"]:
        """Returns inputs, or weights of them, with less of what the first ones share."""
        import torch

        first, others = torch.as_tensor(values).tensor_split([self.level], dim=-1)
        return torch.cat(
            [
                first - (1 - max(self.level, 1) ** -0.5) * first.mean(-1, keepdim=True),
                others,
            ],
            dim=-1,
        )


def draw_projection(
    *, inputs: int, maps: int, dimensions: int | None, constant: float, seed: int
) -> Projection:
    """Returns a public random projection, of `dimensions` rows for each map; none where that is None or too many."""
    matrices = None
    if dimensions is not None and dimensions < inputs:
        random = np.random.Generator(np.random.Philox(seed))
        matrices = random.standard_normal((maps, dimensions, inputs), dtype=np.float32)
        matrices /= np.float32(math.sqrt(dimensions))
    return Projection(matrices=matrices, maps=maps, size=inputs, constant=constant)

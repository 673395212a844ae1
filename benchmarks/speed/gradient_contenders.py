"""One contender of the gradient benchmark in a process of its own: it takes a step for each line that it reads.

    python benchmarks/speed/gradient_contenders.py CONTENDER MODEL THREADS

For each line of input, one line of JSON with the seconds of the step, by the clock and of the processor; at the end of
input, one with the peak of its memory. `gradients.py` starts it.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import gradient_models as models
import numpy as np
import torch
from gradient_models import (
    BATCH,
    CLASSES,
    MODELS,
    NORM,
    PIXELS,
    RATE,
    RATE_OF_LEARNING,
    RECORDS,
)
from harness.measuring import peak_megabytes
from torch import nn

Step = Callable[[], object]

# Enough for any run; the noise is about the clipping norm.
STEPS, EPSILON = 400, 8.0


def main() -> None:
    """Answers lines until there are no more."""
    name, model, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    step = CONTENDERS[name](model)
    for _ in sys.stdin:
        clock, work = time.perf_counter(), time.process_time()
        step()
        print(
            json.dumps([time.perf_counter() - clock, time.process_time() - work]),
            flush=True,
        )
    print(json.dumps({"megabytes": peak_megabytes()}), flush=True)


def _ours(model: str) -> Step:
    """A step of `Gate.gradients`: sample, gradients, clipping, sum, noise; and the update."""
    import pandas as pd

    from noisegate import Gate
    from noisegate.gate.per_example.gradients import module_loss
    from noisegate.privacy.gradient_plan import GradientQuery, plan_steps
    from noisegate.schema import Categorical, Continuous, Schema

    images, labels = models.records()
    columns = [f"x{place:03}" for place in range(PIXELS)]
    table = pd.DataFrame(images, columns=columns).assign(y=labels)
    schema = Schema(
        (
            *(Continuous(name=name, lower=0.0, upper=1.0) for name in columns),
            Categorical(name="y", levels=tuple(range(CLASSES))),
        ),
        label="y",
    )
    gate = Gate(table, schema=schema, epsilon=EPSILON, records=RECORDS)
    if model == "dp-llm":
        shapes, loss, factored = (
            {"weight": (1, models.MAPS * CLASSES, PIXELS + 1)},
            _factored(),
            True,
        )
        parameters = {"weight": torch.zeros(shapes["weight"])}
    else:
        module = MODELS[model]()
        parameters = {name: value.detach() for name, value in module.named_parameters()}
        shapes, factored = (
            {name: tuple(value.shape) for name, value in parameters.items()},
            False,
        )
        loss = module_loss(
            module,
            lambda run, image, code: nn.functional.cross_entropy(
                run(image[None]), code[:1]
            ),
        )
    plan = GradientQuery(
        name="g",
        steps=STEPS,
        sampling_probability=RATE,
        clip_norm=NORM,
        parameters=shapes,
        factored=factored,
    )
    session = gate.gradients(
        plan_steps(gate.budget, plan), loss, method="speed", public={}
    ).__enter__()

    def step() -> None:
        for name, noisy in session.step(parameters).items():
            parameters[name] = parameters[name] - RATE_OF_LEARNING / BATCH * noisy

    return step


def _factored() -> object:
    from noisegate.gate.per_example.gradients import FactoredLoss
    from noisegate_papers.models.locally_linear import locally_linear_scores

    def inputs(image: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        return torch.cat([image, image.new_ones(1)])[None]

    def loss(
        answers: torch.Tensor, image: torch.Tensor, codes: torch.Tensor
    ) -> torch.Tensor:
        scores = locally_linear_scores(
            answers.reshape(models.MAPS, CLASSES), models.TEMPERATURE
        )
        return nn.functional.cross_entropy(scores[None], codes[:1])

    return FactoredLoss(inputs=inputs, loss=loss)


def _opacus(mode: str) -> Callable[[str], Step]:
    def made(model: str) -> Step:
        warnings.simplefilter("ignore")
        from opacus import PrivacyEngine

        images, labels = (torch.from_numpy(part) for part in models.records())
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(images, labels), batch_size=BATCH
        )
        module = MODELS[model]()
        optimizer = torch.optim.SGD(module.parameters(), lr=RATE_OF_LEARNING)
        private = PrivacyEngine().make_private(
            module=module,
            optimizer=optimizer,
            data_loader=loader,
            criterion=nn.CrossEntropyLoss(),
            noise_multiplier=1.0,
            max_grad_norm=NORM,
            grad_sample_mode=mode,
            poisson_sampling=True,
        )
        network, optimizer, loader = private[0], private[1], private[-1]
        criterion = private[2] if mode == "ghost" else nn.CrossEntropyLoss()
        batches = _forever(loader)

        def step() -> None:
            batch, wanted = next(batches)
            optimizer.zero_grad()
            criterion(network(batch), wanted).backward()
            optimizer.step()

        return step

    return made


def _forever(loader: torch.utils.data.DataLoader) -> Iterator[list[torch.Tensor]]:
    while True:
        yield from loader


def _plain(model: str) -> Step:
    """The same step without privacy: a batch of a fixed size, and the gradient of its mean loss."""
    images, labels = (torch.from_numpy(part) for part in models.records())
    module, criterion = MODELS[model](), nn.CrossEntropyLoss()
    optimizer, random = (
        torch.optim.SGD(module.parameters(), lr=RATE_OF_LEARNING),
        np.random.default_rng(0),
    )

    def step() -> None:
        places = torch.from_numpy(random.choice(RECORDS, BATCH, replace=False))
        optimizer.zero_grad()
        criterion(module(images[places]), labels[places]).backward()
        optimizer.step()

    return step


CONTENDERS: dict[str, Callable[[str], Step]] = {
    "noisegate": _ours,
    "opacus, hooks": _opacus("hooks"),
    "opacus, ghost": _opacus("ghost"),
    "no privacy": _plain,
}

if __name__ == "__main__":
    main()

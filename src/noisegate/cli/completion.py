"""What the Tab key offers beside verbs and options."""

from __future__ import annotations

from importlib.metadata import entry_points

# Written down, so that the Tab key need not import the methods, which takes seconds and torch.
METHOD_NAMES = (
    *("aim", "auto", "datalens", "dp-cgan", "dp-dre", "dp-feta", "dp-gan", "dp-gan-ft", "dp-gan-mi", "dp-hp", "dp-llm"),
    *("dp-mepf", "dp-mepf-trained", "dp-merf", "dp-mge", "dp-ntk", "dp-sgd", "dp-sinkhorn", "dpdm", "g-pate"),
    *("gs-wgan", "joint", "linked", "mst", "pairwise", "pate-gan", "pe", "privbayes", "psg", "tab-pe"),
)


def method_names(incomplete: str) -> list[str]:
    """Returns the methods whose names begin so, those of other packages too, for completion by the shell."""
    names = {*METHOD_NAMES, *(point.name for point in entry_points(group="noisegate.methods"))}
    return sorted(name for name in names if name.startswith(incomplete))

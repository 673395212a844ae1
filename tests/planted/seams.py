"""Where bugs are planted: the name of a module, and of an object in it: `noise.add_noise`, `grid.Grid.quantise`.

A module has the last part of its name where no other has the same, or else what it is called here: when that one
moves, its line moves. A name alone is the whole module.
"""

from functools import cache
from pathlib import Path

SEAMS = {
    # The privacy core.
    "grid": "noisegate.privacy.grid",
    "plan": "noisegate.privacy.plan",
    "silos": "noisegate.privacy.silos",
    # The ledger.
    "ledger": "noisegate.ledger.ledger",
    "ledger_tables": "noisegate.ledger.tables",
    # Private records.
    "families": "noisegate.sources.families",
    "memory_tables": "noisegate.sources.tables.memory",
    "image_decode": "noisegate_images.sources.decode",
    "image_folder": "noisegate_images.sources.folders",
    "tables": "noisegate.sources.tables.tables",
    "unit_counter": "noisegate.sources.units",
    # The gate.
    "discovery": "noisegate.gate.discovery.schema_gate",
    "findings": "noisegate.gate.discovery.findings",
    "gate": "noisegate.gate.gate",
    "gradients": "noisegate.gate.per_example.gradients",
    "marginals": "noisegate.gate.sessions.marginals",
    "ray_worker": "noisegate.gate.engines.ray_round",
    "sums": "noisegate.gate.sums",
    "steps": "noisegate.gate.steps",
    # Features, methods and what a user is told.
    "cli_fit": "noisegate.app.cli.fit",
    "column_tables": "noisegate_papers.queries.hermite",
    "design": "noisegate.answers.design",
    "rounds": "noisegate.answers.rounds",
    "question_tables": "noisegate.answers.questions.tables",
    "weighted_answers": "noisegate.answers.questions.weighted",
    "moments": "noisegate.queries.moments",
    "perceptual": "noisegate_images.queries.perceptual",
    "shards": "noisegate.gate.sessions.shards",
    "network_design": "noisegate_papers.training.graphical",
    "run_folder": "noisegate.app.runs.folder",
    "runs": "noisegate.app.runs.work",
    # What several silos share.
    "session": "noisegate.gate.session",
    "silo_session": "noisegate.gate.silos.session",
    "silo_plans": "noisegate.app.silos.shared_plan",
    "stream_plans": "noisegate.privacy.continual_plan",
    "stream_session": "noisegate.gate.streams.session",
    "stream_state": "noisegate.gate.streams.state",
    # What is handed out.
    "folder": "noisegate.models.folder",
    "promise": "noisegate_evaluate.reporting.promise",
    # What looks for bugs.
    "audit_bounds": "noisegate_evaluate.auditing.bounds",
}


@cache
def modules() -> dict[str, str]:
    """Returns the full name of each module by its name here."""
    sources = Path(__file__).parents[2].glob("packages/*/src")
    paths = [
        path.relative_to(source)
        for source in sources
        for path in source.rglob("*.py")
        if "_old_names" not in path.parts
    ]
    full = [
        ".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths
    ]
    tails = [name.rpartition(".")[2] for name in full]
    return {
        tail: name
        for tail, name in zip(tails, full, strict=True)
        if tails.count(tail) == 1
    } | SEAMS

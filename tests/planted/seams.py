"""Where bugs are planted: a short name for each seam, and where it is. A module that moves changes one line here.

What stands behind the short name in a bug is the name of an object in that module: `noise.add_noise`,
`grid.Grid.quantise`. A short name alone is the whole module.
"""

SEAMS = {
    # The privacy core.
    "accounting": "noisegate.privacy.accounting",
    "certificate": "noisegate.privacy.certificate",
    "composition": "noisegate.privacy.composition",
    "discovery_plan": "noisegate.privacy.discovery_plan",
    "events": "noisegate.privacy.events",
    "gradient_plan": "noisegate.privacy.gradient_plan",
    "grid": "noisegate.privacy.grid",
    "marginal_plan": "noisegate.privacy.marginal_plan",
    "noise": "noisegate.privacy.noise",
    "plan": "noisegate.privacy.plan",
    "release": "noisegate.privacy.release",
    # The ledger.
    "accounts": "noisegate.ledger.accounts",
    "ledger": "noisegate.ledger.ledger",
    "ledger_tables": "noisegate.ledger.tables",
    # Private records.
    "csv_file": "noisegate.data.tables.csv_file",
    "frames": "noisegate.data.frames",
    "image_decode": "noisegate.data.images.decode",
    "image_folder": "noisegate.data.images.folders",
    "image_list": "noisegate.data.images.folders",
    "objects": "noisegate.data.tables.objects",
    "raw": "noisegate.data.tables.raw",
    "same_files": "noisegate.data.same_files",
    "tables": "noisegate.data.tables.tables",
    "unit_counter": "noisegate.data.units",
    # The gate.
    "batches": "noisegate.gate.queries.batches",
    "binning": "noisegate.features.binning",
    "clipping": "noisegate.gate.per_example.clipping",
    "contingency": "noisegate.features.contingency",
    "discovery": "noisegate.gate.queries.discovery",
    "exact_counts": "noisegate.gate.queries.exact_counts",
    "exact_products": "noisegate.gate.exact_products",
    "execution": "noisegate.gate.execution",
    "findings": "noisegate.gate.queries.findings",
    "gate": "noisegate.gate.gate",
    "gradients": "noisegate.gate.per_example.gradients",
    "gradients_query": "noisegate.gate.queries.gradients",
    "journal": "noisegate.gate.journal",
    "marginals": "noisegate.gate.queries.marginals",
    "session": "noisegate.gate.session",
    "sums": "noisegate.gate.sums",
    "sums_query": "noisegate.gate.queries.sums",
    # Features, methods and what a user is told.
    "checkpoint": "noisegate.training.checkpoint",
    "column_tables": "noisegate.features.hermite",
    "design": "noisegate.training.pairwise",
    "error_bounds": "noisegate.features.error_bounds",
    "estimators": "noisegate.estimators",
    "explain": "noisegate.cli.explain",
    "layers": "noisegate.networks.layers",
    "evolution": "noisegate.training.evolution",
    "tangent": "noisegate.features.tangent",
    "tangent_pairs": "noisegate.features.tangent_pairs",
    "votes": "noisegate.features.votes",
    "network_design": "noisegate.training.network_design",
    "perceptual": "noisegate.features.perceptual",
    "run_folder": "noisegate.run_folder",
    "runs": "noisegate.runs",
    "products": "noisegate.features.products",
    # What is handed out.
    "folder": "noisegate.models.folder",
    # What looks for bugs.
    "audit_bounds": "noisegate.auditing.bounds",
}

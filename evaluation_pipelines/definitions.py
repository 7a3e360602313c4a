"""The code location: loads what stands in ``defs/``, and nothing else."""

from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """Everything in ``defs/``; loading it reads no environment, data or network."""
    found = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    # A process per step costs seconds for steps of milliseconds; parallelism is inside a step.
    return dg.Definitions.merge(found, dg.Definitions(executor=dg.in_process_executor))

"""The code location: loads what stands in ``defs/``, and nothing else."""

import warnings
from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """Everything in ``defs/``; loading it reads no environment, data or network."""
    # Dagster 1.13 copies every sensor that has a job, and warns of a parameter of that copy.
    warnings.filterwarnings("ignore", "Parameter `owners` of initializer", dg.BetaWarning)
    found = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    # A process per step costs seconds for steps of milliseconds; parallelism is inside a step.
    return dg.Definitions.merge(found, dg.Definitions(executor=dg.in_process_executor))

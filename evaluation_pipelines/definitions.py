"""The code location: loads ``defs/`` and nothing else."""

import gc
import logging
import warnings
from pathlib import Path

import dagster as dg

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judging.rubric_files import log_rubric_faults
from evaluation_pipelines.settings import load_settings

_LOG = logging.getLogger("evaluation_pipelines.judging")


@dg.definitions
def defs() -> dg.Definitions:
    """Load everything in ``defs/``, without reading data or network."""
    _warn_without_judge()
    # Dagster 1.13 copies every sensor with a job, and warns about a parameter of the copy.
    warnings.filterwarnings("ignore", "Parameter `owners` of initializer", dg.BetaWarning)
    # Nothing of it is garbage, now or later: collections take a third of the time.
    gc.disable()
    try:
        found = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    finally:
        gc.freeze()
        gc.enable()
    # A process per step takes seconds, for steps of milliseconds; steps are parallel inside.
    return dg.Definitions.merge(found, dg.Definitions(executor=dg.in_process_executor))


def _warn_without_judge() -> None:
    """Log why sessions are not judged; wrong settings are reported by what uses them."""
    try:
        settings = load_settings()
    except UserError:
        return
    if settings.why_no_judge is not None:
        _LOG.warning("no session is scored by a judge: %s", settings.why_no_judge)
    log_rubric_faults(settings)

"""Judging of the demo's sessions by the script, in the usual judge run."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from evaluation_pipelines.demo.scripted_judge import DEMO_MODEL, wire
from evaluation_pipelines.judging.judge import utc_now
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.runner.judge_run import JudgeRun, RunRequest
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.settings.judging import JudgeSettings
from evaluation_pipelines.storage.stores import Stores

_DEMO_JUDGE = {
    **{name: field.get_default() for name, field in JudgeSettings.model_fields.items()},
    "judge_model": DEMO_MODEL,
    # Never contacted: the script answers in place of the network.
    "openai_base_url": "http://demo-script.invalid/v1",
    "judge_input_usd_per_mtok": 0.0,
    "judge_output_usd_per_mtok": 0.0,
}
"""Settings of the judge, whatever judge the user has configured."""


def judge_demo(
    stores: Stores,
    progress: Progress | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> JudgeReport:
    """Let the script judge all sessions of the demo that are due.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    scripted = replace(stores, settings=stores.settings.model_copy(update=_DEMO_JUDGE))
    plans = load_plans(scripted, clock())
    run = JudgeRun(scripted, plans, RunRequest("demo"), clock, progress or Silent(), wire)
    return run.run(scripted.lake.partitions(AGENT_SESSIONS))

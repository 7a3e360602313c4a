"""Judging of the demo's sessions by the script, in the usual judge run.

Sessions without a judge profile are judged by another rubric on the first days, so that there is a
change of judges to measure: scorecards and the comparison of models are not concerned.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.demo.scripted_judge import wire
from evaluation_pipelines.judge_changes.anchors import read_history
from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange
from evaluation_pipelines.judge_changes.measure import write_judge_changes
from evaluation_pipelines.judge_changes.score_anchors import AnchorRun
from evaluation_pipelines.judging.domain.due import Window
from evaluation_pipelines.judging.plans import JudgePlan, Plans, load_plans
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.judging.run import JudgeRun, RunRequest, utc_now
from evaluation_pipelines.judging.session_windows import WindowKey, window_key
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.schemas import AGENT_SESSIONS, DEMO_JUDGE
from evaluation_pipelines.settings.judging import JudgeSettings
from evaluation_pipelines.storage.stores import Stores

_DEMO_JUDGE = {
    **{name: field.get_default() for name, field in JudgeSettings.model_fields.items()},
    "judge_model": DEMO_JUDGE,
    # Never contacted: the script answers in place of the network.
    "openai_base_url": "http://demo-script.invalid/v1",
    "judge_input_usd_per_mtok": 0.0,
    "judge_output_usd_per_mtok": 0.0,
}
"""Settings of the judge, whatever judge the user has configured."""

_FORMER_RUBRIC = "incident-investigation"
_DAYS_OF_PRESENT_RUBRIC = 10
_TRIGGER = "demo"


@dataclass(frozen=True, slots=True)
class _PlansOfDemo(Plans):
    """Plans by which sessions without a judge profile have a former rubric until a day."""

    former: JudgePlan
    changed_on: date

    def for_windows(
        self, windows: Collection[Window], cards: pl.DataFrame
    ) -> dict[WindowKey, JudgePlan | None]:
        """Return the plan of each session by window key."""
        plans = Plans.for_windows(self, windows, cards)
        for each in windows:
            key = window_key(each)
            if plans[key] is self.default and each.session_date < self.changed_on:
                plans[key] = self.former
        return plans


def judge_demo(
    stores: Stores,
    progress: Progress | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> JudgeReport:
    """Let the script judge all sessions of the demo that are due.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    scripted, days = _scripted(stores), sorted(stores.lake.partitions(AGENT_SESSIONS))
    plans = load_plans(scripted, clock())
    former = load_plans(_scripted(stores, judge_rubric=_FORMER_RUBRIC), clock()).default
    changed_on = days[-_DAYS_OF_PRESENT_RUBRIC:][0]
    of_demo = _PlansOfDemo(
        *(plans.by_version, plans.faults, plans.default_key, plans.registry, plans.overrides),
        *(former, changed_on),
    )
    run = JudgeRun(scripted, of_demo, RunRequest(_TRIGGER), clock, progress or Silent(), wire)
    return run.run(days)


def measure_demo_change(
    stores: Stores,
    progress: Progress | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> list[JudgeChange]:
    """Let both judges score the same sessions, and write the tables of the change.

    Raises:
        LedgerError: The ledger cannot be used.
        LakeError: A file cannot be read or written.
    """
    scripted = _scripted(stores)
    history = read_history(scripted, clock())
    for change in history.changes:
        shown = progress or Silent()
        AnchorRun(scripted, history, change, _TRIGGER, None, shown, clock, wire).run()
    return write_judge_changes(scripted, clock())


def _scripted(stores: Stores, **settings: str) -> Stores:
    return replace(stores, settings=stores.settings.model_copy(update=_DEMO_JUDGE | settings))

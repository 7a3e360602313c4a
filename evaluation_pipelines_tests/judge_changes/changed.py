"""Sessions before and after a change of the judge's model, judged by a scripted endpoint."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evaluation_pipelines.build.judge_scores import publish_scores, unpublished_dates
from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange
from evaluation_pipelines.judge_changes.domain.judges import Change
from evaluation_pipelines.judge_changes.frame import JudgeHistory, read_history
from evaluation_pipelines.judge_changes.measure import measure
from evaluation_pipelines.judge_changes.score_anchors import AnchorReport, AnchorRun
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judged import Judged, fill, open_judged, session_with_texts
from evaluation_pipelines_tests.otlp_builders import DAY_S

DAYS_BEFORE, DAYS_AFTER = 3, 2


@contextmanager
def changed_judge(
    folder: Path,
    judge: JudgeEndpoint,
    former: Mapping[str, Any] | None = None,
    between: Callable[[], None] = lambda: None,
    **settings: Any,
) -> Iterator[Judged]:
    """Open stores with sessions of June 1 to 3 by judge-1 and of June 4 and 5 by judge-2.

    On each day each of six people has one session.

    Args:
        folder: Folder of the data.
        judge: The endpoint.
        former: Settings of the former judge.
        between: Called between the two judges.
        settings: Settings of the new judge.
    """
    with open_judged(folder, judge.base_url, **(former or {})) as before:
        fill(before.workplace, *sessions(range(DAYS_BEFORE)))
        before.run()
        publish(before.workplace.stores)
    between()
    with open_judged(folder, judge.base_url, **{"judge_model": "judge-2", **settings}) as new:
        fill(new.workplace, *sessions(range(DAYS_BEFORE, DAYS_BEFORE + DAYS_AFTER)))
        new.run()
        publish(new.workplace.stores)
        yield new


def sessions(days: range) -> Iterator[bytes]:
    """Lines of the sessions of some days, counted from June 1."""
    for day in days:
        for person in range(6):
            second = day * DAY_S + 600 * person
            yield session_with_texts(
                f"s{day}-{person}", second, user__email=f"p{person}@example.com"
            )


def publish(stores: Stores) -> None:
    """Copy the scores of the ledger to the lake."""
    assert publish_scores(stores, unpublished_dates(stores)) == []


def only_change(judged: Judged) -> tuple[JudgeHistory, Change]:
    """The only change, with all scores."""
    history = read_history(judged.workplace.stores, judged.now)
    (change,) = history.changes
    return history, change


def run_anchors(
    judged: Judged, max_cost_usd: float | None = None, progress: Progress | None = None
) -> AnchorReport:
    """Draw and score the anchors of the only change."""
    stores, clock = judged.workplace.stores, lambda: judged.now
    history, change = only_change(judged)
    shown = progress or Silent()
    return AnchorRun(stores, history, change, "tests", max_cost_usd, shown, clock).run()


def measured(judged: Judged) -> JudgeChange:
    """What is known of the only change."""
    return measure(judged.workplace.stores, *only_change(judged), judged.now)

"""Sessions before and after a change of the judge's model, judged by a scripted endpoint."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.build.build import publish_scores, unpublished_dates
from evaluation_pipelines.judge_changes.anchors import (
    JudgeHistory,
    measure,
    read_history,
    write_judge_changes,
)
from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange
from evaluation_pipelines.judge_changes.domain.judges import Change
from evaluation_pipelines.judge_changes.score_anchors import AnchorReport, AnchorRun
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import says, score_reply
from evaluation_pipelines_tests.judged import Judged, fill, open_judged, session_with_texts
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.world import DAY_S

DAYS_BEFORE, DAYS_AFTER = 3, 2
NEW = {"judge_model": "judge-2"}


@contextmanager
def scripted_judges() -> Iterator[JudgeEndpoint]:
    """An endpoint on which judge-1 gives 60 points and judge-2 gives 70."""
    with open_judge_endpoint() as endpoint:
        endpoint.always_as("judge-1", says(score_reply(60)))
        endpoint.always_as("judge-2", says(score_reply(70)))
        yield endpoint


@contextmanager
def changed_judge(folder: Path, judge: JudgeEndpoint, **settings: Any) -> Iterator[Judged]:
    """Open stores with sessions of June 1 to 3 by judge-1 and of June 4 and 5 by judge-2.

    On each day each of six people has one session. What both have scored is a copy.

    Args:
        folder: Folder of the data.
        judge: The endpoint that both judges are asked at from now on.
        settings: Settings of the new judge from now on.
    """
    shutil.copytree(_scored_by_both().name, folder, dirs_exist_ok=True)
    with open_judged(folder, judge.base_url, **{**NEW, **settings}) as new:
        yield new


@cache
def _scored_by_both() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory()
    with (
        scripted_judges() as judge,
        judge_changed_by(Path(folder.name), judge, {}, lambda: None, **NEW),
    ):
        return folder


@contextmanager
def judge_changed_by(
    folder: Path,
    judge: JudgeEndpoint,
    former: Mapping[str, Any],
    change: Callable[[], None],
    **settings: Any,
) -> Iterator[Judged]:
    """Open stores with the same sessions, judged before and after any change.

    Args:
        folder: Folder of the data.
        judge: The endpoint.
        former: Settings of the former judge.
        change: Called between the two judges.
        settings: Settings of the new judge.
    """
    with open_judged(folder, judge.base_url, **former) as before:
        fill(before.workplace, *sessions(range(DAYS_BEFORE)))
        before.run()
        publish(before.workplace.stores)
    change()
    with open_judged(folder, judge.base_url, **settings) as new:
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


class ChangePages:
    """Pages over the sessions and changes that there are now."""

    def __init__(self, judged: Judged) -> None:
        judged.workplace.build()
        write_judge_changes(judged.workplace.stores, judged.now)
        service = Service(judged.workplace)
        self._clients = {
            owner: service.client(service.key(Role.READER, owner)) for owner in (None, "default")
        }

    def of(self, url: str, organization: str | None = None) -> str:
        """Return a page when all of it is computed, as the reader of an organization sees it."""
        client = self._clients[organization]
        while "data-reload-after" in (page := client.get(url).text):
            time.sleep(0.05)
        return page

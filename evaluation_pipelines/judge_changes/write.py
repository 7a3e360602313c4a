"""The tables of judge changes in the lake."""

from collections.abc import Sequence
from datetime import datetime

from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange
from evaluation_pipelines.judge_changes.domain.rows import anchor_rows, change_rows
from evaluation_pipelines.judge_changes.measure import judge_changes
from evaluation_pipelines.schemas import JUDGE_ANCHORS, JUDGE_CHANGES
from evaluation_pipelines.storage.stores import Stores


def write_judge_changes(stores: Stores, now: datetime) -> Sequence[JudgeChange]:
    """Find and measure all changes, replace both tables, and return the changes.

    Raises:
        LakeError: A file cannot be read or written.
        LedgerError: The ledger cannot be used.
    """
    found = judge_changes(stores, now)
    stores.lake.write_whole(change_rows(found, now), JUDGE_CHANGES)
    stores.lake.write_whole(anchor_rows(found), JUDGE_ANCHORS)
    return found

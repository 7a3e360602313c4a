"""The rubrics that would judge sessions now, which tell whether a score is obsolete."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.judging.plans import is_default
from evaluation_pipelines.judging.rubric_files import load_rubrics
from evaluation_pipelines.judging.session_windows import WindowKey
from evaluation_pipelines.profiles.domain.matching import ranked
from evaluation_pipelines.profiles.domain.registry import Registered
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_KEY
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class CurrentRubrics:
    """Rubrics of the judge profiles, and of the settings for all other sessions.

    Attributes:
        prompt_hashes: Hash of the words of each rubric, by its name.
        profiles: Newest version of each profile.
        default: Name of the rubric of the settings.
    """

    prompt_hashes: Mapping[str, str]
    profiles: Sequence[Registered]
    default: str

    def prompt_hash(self, label: str) -> str | None:
        """Return the hash for sessions with a label; ``None`` if their rubric cannot be used."""
        of_settings = [each.profile for each in self.profiles if is_default(each)]
        judged = [each for each in ranked(self.profiles, label) if each.method != "heuristic"]
        has_own = bool(judged) and judged[0] not in of_settings
        return self.prompt_hashes.get((judged[0].rubric or "") if has_own else self.default)


def current_rubrics(stores: Stores) -> CurrentRubrics:
    """Return what would judge sessions now.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    rubrics = load_rubrics(stores.settings.judge_rubrics_dir)
    hashes = {name: rubric.prompt_hash for name, rubric in rubrics.items()}
    newest = ProfileStore(stores.ledger).registry().newest()
    return CurrentRubrics(hashes, newest, stores.settings.judge_rubric)


def current_prompt_hashes(stores: Stores, scores: Collection[Score]) -> dict[WindowKey, str | None]:
    """Return the hash of the rubric that would judge each session of ``scores`` now.

    Raises:
        As ``current_rubrics``, and LakeError if a file cannot be read.
    """
    rubrics = current_rubrics(stores)
    keys, days = {each.session_key for each in scores}, {each.session_date for each in scores}
    is_scored = pl.col("session_key").is_in(sorted(keys))
    columns = [*SESSION_KEY, "classification_label"]
    rows = stores.lake.read(AGENT_SESSIONS, sorted(days), columns, is_scored)
    return {(row[0], row[1]): rubrics.prompt_hash(row[2]) for row in rows.iter_rows()}

"""Texts of the rubrics that judged, so that a changed rubric can be asked again."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.prompt.rubric import Rubric, RubricCriterion
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import RUBRIC_TEXTS
from evaluation_pipelines.times import to_us

_TEXT = RUBRIC_TEXTS.c


class RubricTexts:
    """Reader and writer of ``rubric_texts``."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def keep(self, rubrics: Iterable[Rubric], now: datetime) -> None:
        """Store the rubrics that the ledger does not have."""
        by_hash = {each.prompt_hash: each for each in rubrics}
        with reading(self._engine) as connection:
            known = set(connection.scalars(sa.select(_TEXT.prompt_hash)))
        rows = [
            {
                "prompt_hash": prompt_hash,
                "rubric": each.name,
                "score_template": each.score_template,
                "missing_tools_template": each.missing_tools_template,
                "criteria": [asdict(criterion) for criterion in each.criteria],
                "first_used_at_us": to_us(now),
            }
            for prompt_hash, each in by_hash.items()
            if prompt_hash not in known
        ]
        if rows:
            with writing(self._engine) as connection:
                insert = insert_into(connection, RUBRIC_TEXTS).values(rows)
                connection.execute(insert.on_conflict_do_nothing())

    def find(self, prompt_hash: str) -> Rubric | None:
        """Return the rubric with a prompt hash; ``None`` if the ledger does not have it."""
        query = sa.select(RUBRIC_TEXTS).where(_TEXT.prompt_hash == prompt_hash)
        with reading(self._engine) as connection:
            row = connection.execute(query).mappings().one_or_none()
        if row is None:
            return None
        criteria = tuple(RubricCriterion(**each) for each in row["criteria"])
        templates = row["score_template"], row["missing_tools_template"]
        return Rubric(row["rubric"], *templates, criteria)

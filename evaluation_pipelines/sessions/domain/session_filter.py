"""Choice of sessions by when, who, where and what; every list and report uses the same."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.schemas import SESSION_KEY, UTC_TIME

FILTER_COLUMNS = {
    "organization": "organization_id",
    "person": "person_id",
    "team": "team",
    "repository": "repository",
    "branch": "branch",
    "environment": "environment",
    "agent": "agent_id",
    "program": "source_cli",
    "masque": "masque",
    "model": "model",
    "variant": "model_variant",
    "label": "classification_label",
}
"""Name of a filter -> its column of AGENT_SESSIONS."""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Values that the chosen sessions have; ``None`` is any.

    Attributes:
        organization: An ``organization_id``.
        person: A ``person_id``.
        team: A ``team``.
        repository: A ``repository``.
        branch: A ``branch``.
        environment: An ``environment``.
        agent: An ``agent_id``.
        program: A ``source_cli``.
        masque: A ``masque``.
        model: A ``model``.
        variant: A ``model_variant``.
        label: A ``classification_label``.
        dates: First and last ``session_date``.
        since: They started then or later.
        until: They started before.
        attributes: Names and values of ``session_attributes``.
    """

    organization: str | None = None
    person: str | None = None
    team: str | None = None
    repository: str | None = None
    branch: str | None = None
    environment: str | None = None
    agent: str | None = None
    program: str | None = None
    masque: str | None = None
    model: str | None = None
    variant: str | None = None
    label: str | None = None
    dates: tuple[date, date] | None = None
    since: datetime | None = None
    until: datetime | None = None
    attributes: tuple[tuple[str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if every session is chosen."""
        return self == ALL_SESSIONS

    @property
    def columns(self) -> dict[str, str | None]:
        """Values by the name of their field; ``None`` is any."""
        return {name: getattr(self, name) for name in FILTER_COLUMNS}

    def condition(self) -> pl.Expr:
        """Return whether a row of AGENT_SESSIONS is chosen."""
        columns = [
            pl.col(column) == getattr(self, name)
            for name, column in FILTER_COLUMNS.items()
            if getattr(self, name) is not None
        ]
        attributes = [
            pl.col("session_attributes").list.contains(
                pl.struct(key=pl.lit(key), value=pl.lit(value))
            )
            for key, value in self.attributes
        ]
        return pl.all_horizontal(pl.lit(value=True), *columns, *self._times(), *attributes)

    def _times(self) -> Iterator[pl.Expr]:
        started = pl.col("started_at")
        if self.dates is not None:
            yield pl.col("session_date").is_between(*self.dates)
        if self.since is not None:
            yield started >= pl.lit(self.since).cast(UTC_TIME)
        if self.until is not None:
            yield started < pl.lit(self.until).cast(UTC_TIME)

    def rows_of(self, rows: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of chosen sessions, in their order.

        Args:
            rows: Rows with the columns of SESSION_KEY.
            sessions: AGENT_SESSIONS of the same dates.
        """
        if self.is_empty:
            return rows
        chosen = sessions.filter(self.condition()).select(SESSION_KEY)
        return rows.join(chosen, on=SESSION_KEY, how="semi", maintain_order="left")

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield name and value of each condition."""
        for name, value in self.columns.items():
            if value is not None:
                yield name, value
        yield from self.attributes


ALL_SESSIONS = SessionFilter()
"""Every session, whoever ran it."""

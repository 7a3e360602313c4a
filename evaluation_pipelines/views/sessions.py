"""The relation of sessions: every session window with its scores as they are now.

Build results are *stored*, one file per date and table. The rest is *joined* on reading:
the newest overrides, the judge's newest scores, the rank in the task class, open or ended, and what
is withheld from the reader.

What was read is kept in memory: a file never changes, so it is read once.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from threading import Lock
from typing import Generic, TypeAlias, TypeVar

import polars as pl

from evaluation_pipelines.judging.domain.badge import Badge, badges_of, with_band
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.outcomes.domain.by_session import by_session
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    EVALUATION_BOOKS,
    JUDGE_SCORES,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    SESSION_OUTCOMES,
    SESSION_PERFORMANCE,
    SESSIONS,
    UTC_TIME,
    Table,
)
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.schemas.relations import EVALUATED
from evaluation_pipelines.scorecards.domain.evaluation import (
    CARD_COLUMNS,
    TAG_COLUMNS,
    is_risk,
    judge_tags,
    needs_reason,
    shown_recommendation,
    why_low,
    with_newest_overrides,
    worst_criteria,
)
from evaluation_pipelines.scorecards.domain.withheld import IS_SCORED, SessionKey, hide, withhold
from evaluation_pipelines.scorecards.store import OverrideStore
from evaluation_pipelines.sessions.domain.ended import is_terminal
from evaluation_pipelines.sessions.domain.performance import tools_per_prompt
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.manifest import Version
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.views.listing import SESSION_LISTING

Files: TypeAlias = tuple[str, ...]
_Value = TypeVar("_Value")


class OfVersion(Generic[_Value]):
    """A value made from the newest version of the lake; its owner keeps threads apart.

    Reading the parts of a table takes milliseconds if there are hundreds of dates, and a page
    needs them many times.

    Args:
        make: Returns the value of a lake.
    """

    def __init__(self, make: Callable[[Lake], _Value]) -> None:
        self._make = make
        self._known: tuple[Version, _Value] | None = None

    def of(self, lake: Lake) -> _Value:
        """Return the value; raises what ``make`` raises."""
        version = lake.version()  # first: parts that come after it make another version
        if self._known is None or self._known[0] != version:
            self._known = version, self._make(lake)
        return self._known[1]


def files_by_date(lake: Lake, tables: Sequence[Table]) -> Mapping[date, Files]:
    """Return the files of each date that the first table has."""
    found: dict[date, list[str]] = defaultdict(list)
    dates = set(lake.partitions(tables[0]))
    for table in tables:
        for part in lake.parts(table):
            if part.session_date in dates:
                found[part.session_date].append(part.path)
    return {day: tuple(paths) for day, paths in found.items()}


class ByDate(Generic[_Value]):
    """Values of dates, each made of some tables; its owner keeps threads apart.

    Args:
        tables: The tables; the first one has all dates.
        read: Reads the value of a date.
    """

    def __init__(self, tables: Sequence[Table], read: Callable[[Lake, date], _Value]) -> None:
        self._read = read
        self._current = OfVersion(lambda lake: files_by_date(lake, tables))
        self._known: dict[date, tuple[Files, _Value]] = {}

    def values(self, lake: Lake, days: Collection[date] | None = None) -> list[_Value]:
        """Return the values of some dates, or of all; read those with other files than before.

        Raises:
            LakeError: A file cannot be read.
        """
        current = self._current.of(lake)
        for gone in self._known.keys() - current.keys():
            del self._known[gone]
        wanted = [day for day in current if days is None or day in days]
        for day in wanted:
            if day not in self._known or self._known[day][0] != current[day]:
                self._known[day] = (current[day], self._read(lake, day))
        return [self._known[day][1] for day in wanted]


_NESTED = tuple(name for name, dtype in AGENT_SESSIONS.schema.items() if isinstance(dtype, pl.List))
_OF_JUDGE = ("judge_badge", "judge_total", "judge_model", "judge_flags")
_EXPLAINED = ("worst_criterion", "worst_100", "judge_tags", "disqualifier_triggered")
_RANK = "percentile_in_class"

_STORED: Mapping[Table, Mapping[str, str]] = {
    AGENT_SESSIONS: {column: column for column in AGENT_SESSIONS.schema if column not in _NESTED},
    SESSION_PERFORMANCE: {
        column: column
        for column in SESSION_PERFORMANCE.schema
        if column not in AGENT_SESSIONS.schema
    },
    SESSION_EVALUATIONS: {
        **{column: column for column in EVALUATED},
        "reason": "unscored_reason",
        "judge_model": "automatic_judge_model",
        "judge_total": "judge_total",
        "judge_total_model": "judge_model",
    },
    EVALUATION_BOOKS: {"state": "state", "reason": "state_reason"},
}
"""Stored columns of each table, with their names in the relation."""

_READ = (*_STORED, SESSION_OUTCOMES, SCORECARDS, JUDGE_SCORES)
"""Tables that a row is read from. The first one has all dates."""

_DERIVED: Sequence[pl.Expr] = (tools_per_prompt(),)
"""Columns derived from stored ones when read: they need no build."""

_OVERRIDDEN = (
    *("organization_id", "session_key", "content_hash", "profile_id", "excluded_by", "status"),
    *("effective_100", "effective_source", "provisional_100", "passed", "colour", "confidence"),
    "quality_risk",
)
"""Columns that overrides change, and the columns needed to do so."""

_MOST_VIEWS = 16
"""Cached sets of withheld sessions: one per reviewer with a different review history."""
_FEW = 1000
"""Most sessions whose judgments are looked up by key; more are read by date."""


def sessions(
    stores: Stores,
    days: Iterable[date],
    chosen: pl.Expr | None = None,
    *,
    waiting: Collection[SessionKey] = (),
    now: datetime | None = None,
) -> pl.DataFrame:
    """Return the sessions of some dates, without order.

    Args:
        stores: The stores; as of a past time, the rows are as of that time.
        days: Session dates.
        chosen: Condition on columns of AGENT_SESSIONS.
        waiting: Sessions whose scores are withheld: they are in no filter, order or mean.
        now: The time for ``has_ended``; by default that of the stores, or else the current time.

    Returns:
        SESSIONS without the columns of :func:`with_details`, plus IS_SCORED. ``judge_total`` is
        that of the last build.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    rows = _stored(stores.lake, days, chosen, is_past=stores.ledger.as_of is not None)
    found = rows["session_date"].unique().to_list()
    joined = _with_overrides(stores, rows, OverrideStore(stores.ledger).of_dates(found))
    return _with_end(stores, withhold(joined, waiting), now)


def with_details(
    stores: Stores,
    rows: pl.DataFrame,
    names: Collection[str] = tuple(SESSIONS.schema),
    now: datetime | None = None,
) -> pl.DataFrame:
    """Add columns that need other tables, for the displayed rows only.

    These are ``percentile_in_class``, the judge's columns, ``why``, and lists of AGENT_SESSIONS.
    Columns that are already there stay, except the judge's.

    Args:
        stores: The stores of the rows.
        rows: Rows of :func:`sessions`.
        names: The columns that are needed.
        now: As in :func:`sessions`.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    names = [name for name in names if name not in rows.columns or name in _OF_JUDGE]
    days = rows["session_date"].unique().sort().to_list()
    is_one = _is_listed_session(rows)
    if nested := [column for column in _NESTED if column in names]:
        found = stores.lake.read(AGENT_SESSIONS, days, [*SESSION_KEY, *nested], is_one)
        rows = rows.join(found, on=SESSION_KEY, how="left", maintain_order="left")
    if _RANK in names:
        from evaluation_pipelines.sessions.percentiles import ranked_performance  # loads DuckDB

        ended = _ended(stores, now)
        ranks = ranked_performance(stores.lake, days, ended, is_one).select(*SESSION_KEY, _RANK)
        rows = rows.join(ranks, on=SESSION_KEY, how="left", maintain_order="left")
    if any(column in names for column in _OF_JUDGE):
        rows = _judged(rows, _badges(_scorings(stores, rows, days), rows))
    if "why" in names:
        is_explained = set(_EXPLAINED).issubset(rows.columns)
        rows = _with_reasons(rows if is_explained else _explained(stores.lake, days, rows))
    return hide(rows)


def with_live_judge(stores: Stores, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with ``judge_badge`` and ``judge_total`` as they are now, of any number of rows.

    Only sessions whose judgments have changed since their build are looked up.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    from evaluation_pipelines.scorecards.scorecard_tables import (
        judged_since_build,  # loads DuckDB
    )

    keys = ScoreStore(stores.ledger).keys_to_look_up(
        judged_since_build(stores), stores.settings.judge_exclude_flagged
    )
    changed = rows.filter(pl.col("session_key").is_in(list(keys)))
    listed = ScoreStore(stores.ledger).listed_of(set(changed["session_key"]))
    return hide(_judged(rows, _badges(listed, changed)))


class Sessions:
    """All sessions with their stored part in memory, as a service needs; threads may share one."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._lock = Lock()
        self._files = OfVersion(lambda lake: files_by_date(lake, _READ))
        self._rows = self._shown = _no_rows(stores.lake)
        self._ranks: pl.DataFrame | None = None
        self._known: Mapping[date, Files] = {}
        self._organizations: list[str] = []
        self._overrides: pl.DataFrame | None = None
        self._seen = dict[frozenset[SessionKey], pl.DataFrame]()

    def organizations(self) -> list[str]:
        """Return the organizations that have sessions, in alphabetical order; raises as rows."""
        with self._lock:
            self._refresh()
            return self._organizations

    def rows(
        self, waiting: frozenset[SessionKey] = frozenset(), now: datetime | None = None
    ) -> pl.DataFrame:
        """Return :func:`sessions` of all dates, the newest first; args and errors as there."""
        overrides = OverrideStore(self._stores.ledger).of_dates()
        with self._lock:
            self._refresh()
            if self._overrides is None or not overrides.equals(self._overrides):
                self._overrides = overrides
                self._shown = _with_overrides(self._stores, self._rows, overrides)
                self._seen.clear()
            if waiting not in self._seen:
                if len(self._seen) >= _MOST_VIEWS:  # the oldest goes
                    del self._seen[next(iter(self._seen))]
                self._seen[waiting] = withhold(self._shown, waiting)
            seen = self._seen[waiting]
        return _with_end(self._stores, seen, now)

    def with_ranks(self, rows: pl.DataFrame, now: datetime | None = None) -> pl.DataFrame:
        """Return rows with ``percentile_in_class``, which is slow for all sessions.

        It is computed when it is asked for: most pages show none. Ranks are those of the sessions
        that have ended by then: the end of an open one builds its date. Raises as :meth:`rows`.
        """
        with self._lock:
            self._refresh()
            if self._ranks is None:
                ranks = _ranks(self._rows, _ended(self._stores, now))
                self._ranks = self._rows.select(*SESSION_KEY, ranks)
            ranked = rows.join(self._ranks, on=SESSION_KEY, how="left", maintain_order="left")
        return hide(ranked)

    def _refresh(self) -> None:
        """Read changed files, and drop results derived from the previous rows."""
        if self._known == self._files.of(self._stores.lake):
            return
        lake = self._stores.lake.snapshot()  # the tables of one moment
        files = self._files.of(lake)
        stale = [day for day, names in files.items() if self._known.get(day) != names]
        kept = self._rows.filter(pl.col("session_date").is_in(sorted(files.keys() - set(stale))))
        read = _explained(lake, stale, _stored(lake, stale))  # together: it takes a fourth
        rows = SESSION_LISTING.newest_first(pl.concat([kept, read]))
        self._rows, self._known = rows, files
        self._ranks = self._overrides = None
        self._organizations = rows["organization_id"].unique().sort().to_list()


def state_counts(rows: pl.DataFrame, days: Collection[date]) -> pl.DataFrame:
    """Return ``session_date``, ``state`` and the number of ``sessions`` that the books have."""
    booked = rows.filter(pl.col("session_date").is_in(days), pl.col("state").is_not_null())
    return booked.group_by("session_date", "state").agg(sessions=pl.len().cast(pl.Int64))


def _ranks(rows: pl.DataFrame, ended: pl.Expr) -> pl.Series:
    """Return the rank of each session, of the rows of all dates."""
    from evaluation_pipelines.sessions.percentiles import with_percentiles  # loads DuckDB

    performance = rows.select(SESSION_PERFORMANCE.schema.names())
    composite = rows.select(pl.when(ended).then("composite").alias("composite"))["composite"]
    return with_percentiles(performance, performance.with_columns(composite))[_RANK]


def _no_rows(lake: Lake) -> pl.DataFrame:
    return _explained(lake, (), _stored(lake, ()))


def _stored(
    lake: Lake, days: Iterable[date], chosen: pl.Expr | None = None, *, is_past: bool = False
) -> pl.DataFrame:
    """Read the build results for the sessions of some dates."""
    first, *others = _STORED.items()
    rows = lake.read(first[0], days, list(first[1]), chosen)
    days = rows["session_date"].unique().sort().to_list()
    is_one = None if chosen is None else _is_listed_session(rows)
    for table, names in others:
        if is_past and table is EVALUATION_BOOKS:  # no past state of it is kept
            found = table.no_rows.select(*SESSION_KEY, *names)
        else:
            found = lake.read(table, days, [*SESSION_KEY, *names], is_one)
        rows = rows.join(found.rename(dict(names)), on=SESSION_KEY, how="left")
    happened = by_session(lake.read(SESSION_OUTCOMES, days, where=is_one))
    rows = rows.join(happened, on=SESSION_KEY, how="left")
    return rows.with_columns(*_DERIVED)


def _explained(lake: Lake, days: Sequence[date], rows: pl.DataFrame) -> pl.DataFrame:
    """Add the scorecard and judge score columns that :func:`why_low` needs."""
    low = rows.filter(needs_reason())
    is_counting = pl.col("card_id").is_in(low["card_id"].drop_nulls().implode())
    days = days if low.height else []
    cards = lake.read(SCORECARDS, days, CARD_COLUMNS, is_counting)
    scores = lake.read(JUDGE_SCORES, days, TAG_COLUMNS, _is_listed_session(low))
    return rows.join(worst_criteria(cards), on="card_id", how="left").join(
        judge_tags(scores), on=[*SESSION_KEY, "content_hash"], how="left"
    )


def _is_listed_session(rows: pl.DataFrame) -> pl.Expr:
    return pl.col("session_key").is_in(rows["session_key"].unique().implode())


def _with_overrides(stores: Stores, rows: pl.DataFrame, overrides: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the newest overrides, which apply immediately."""
    if overrides.height:
        # Joined on the needed columns only: the other columns are shared, not copied.
        changed = with_newest_overrides(rows.select(_OVERRIDDEN), overrides).drop("annotator")
        by_person = pl.col("effective_source") == "override"
        risk = pl.when(by_person).then(is_risk(ProfileStore(stores.ledger).registry()))
        changed = changed.with_columns(quality_risk=risk.otherwise("quality_risk"))
        rows = rows.with_columns(changed.get_columns())
    return rows.with_columns(
        pl.col("effective_100").is_not_null().alias(IS_SCORED), shown_recommendation()
    )


def _with_end(stores: Stores, rows: pl.DataFrame, now: datetime | None) -> pl.DataFrame:
    return rows.with_columns(has_ended=_ended(stores, now))


def _ended(stores: Stores, now: datetime | None) -> pl.Expr:
    time = pl.lit(now or stores.ledger.as_of or datetime.now(UTC)).cast(UTC_TIME)
    return is_terminal(time, stores.settings.session_idle_minutes)


def _scorings(stores: Stores, rows: pl.DataFrame, days: Sequence[date]) -> Iterable[Score]:
    """Return the judgments of some sessions, possibly with others from the same dates."""
    if not days:
        return ()
    scores = ScoreStore(stores.ledger)
    if rows.height <= _FEW:
        return scores.listed_of(set(rows["session_key"]))
    return scores.listed(days[0], days[-1])


def _badges(scorings: Iterable[Score], rows: pl.DataFrame) -> dict[SessionKey, Badge]:
    contents = {
        (owner, key): content
        for owner, key, content in rows.select(*SESSION_KEY, "content_hash").iter_rows()
    }
    return badges_of(scorings, contents)


def _judged(rows: pl.DataFrame, badges: Mapping[SessionKey, Badge]) -> pl.DataFrame:
    """Return rows with the columns of the judge: of badges, else of the last build."""
    schema = dict.fromkeys(SESSION_KEY, pl.String()) | {
        f"live_{name}": SESSIONS.schema[name] for name in _OF_JUDGE
    }
    live = pl.DataFrame(
        [
            (*key, badge.text, badge.total, badge.model, list(badge.flags))
            for key, badge in badges.items()
        ],
        schema,
        orient="row",
    ).with_columns(is_live=pl.lit(value=True))
    of_build = rows.with_columns(
        judge_badge=with_band("judge_total"), judge_flags=pl.lit(None, pl.List(pl.String))
    )
    joined = of_build.join(live, on=SESSION_KEY, how="left", maintain_order="left")
    return joined.with_columns(
        pl.when(pl.col("is_live")).then(f"live_{name}").otherwise(name).alias(name)
        for name in _OF_JUDGE
    ).select(of_build.columns)


def _with_reasons(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``why``: :func:`why_low` of each session; null if it has nothing to say."""
    low = rows.filter(needs_reason())
    said = low.select(SESSION_KEY).with_columns(
        why=pl.Series([why_low(row) for row in low.iter_rows(named=True)], dtype=pl.String)
    )
    return rows.join(said, on=SESSION_KEY, how="left", maintain_order="left")

"""When each masque was worn in a session, and how the sessions of masques compare.

A don interrupts a masque that is taken off later: once the new one is off, the outer one is worn
again. A masque that is never taken off is worn until the next don. A doff ends the masque that it
names, of several the one put on last; a doff without a name ends whatever is worn.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby
from operator import attrgetter, itemgetter

import polars as pl

from evaluation_pipelines.sessions.domain.performance import recommendation

_UTC_TIME = pl.Datetime("us", "UTC")

DONS_AND_DOFFS = pl.Schema(
    {
        "session_no": pl.Int64(),
        "position": pl.Int64(),
        "event_time": _UTC_TIME,
        "is_don": pl.Boolean(),
        "masque": pl.String(),
    }
)
"""One row per don (with a masque) or doff, sorted by session and position."""

WEARINGS = pl.Schema(
    {
        "session_no": pl.Int64(),
        "wearing_no": pl.Int64(),
        "masque": pl.String(),
        "worn_from": _UTC_TIME,
        "donned_at": _UTC_TIME,
        "don_position": pl.Int64(),
        "doffed_at": _UTC_TIME,
        "doff_position": pl.Int64(),
    }
)
"""One row per time that a masque was worn without interruption, in the order of time.

``wearing_no`` counts from 1 in each session. ``worn_from`` is the first moment at which an event
belongs to it: ``donned_at``, or just after it where the doff of an inner masque at ``donned_at``
uncovered this one. ``doffed_at`` and ``doff_position`` are null unless its own doff ended it.
"""


@dataclass(frozen=True, slots=True)
class _Doff:
    position: int
    time_us: int
    masque: str | None


@dataclass(slots=True, eq=False)
class _Don:
    position: int
    time_us: int
    masque: str
    doff: _Doff | None = None

    @property
    def is_instant(self) -> bool:
        return self.doff is not None and self.doff.time_us == self.time_us


@dataclass(slots=True)
class _Wearing:
    masque: str
    worn_from_us: int
    donned_at_us: int
    don_position: int
    doff: _Doff | None = None


def masque_wearings(dons_and_doffs: pl.DataFrame) -> pl.DataFrame:
    """Return WEARINGS for DONS_AND_DOFFS."""
    rows = dons_and_doffs.with_columns(pl.col("event_time").to_physical()).iter_rows()
    found = [
        (session_no, number, *_row(wearing))
        for session_no, events in groupby(rows, itemgetter(0))
        for number, wearing in enumerate(_wearings(_matched(events)), 1)
    ]
    return pl.DataFrame(found, schema=WEARINGS, orient="row")


def _row(wearing: _Wearing) -> tuple[str | int | None, ...]:
    doff = wearing.doff
    return (
        wearing.masque,
        wearing.worn_from_us,
        wearing.donned_at_us,
        wearing.don_position,
        None if doff is None else doff.time_us,
        None if doff is None else doff.position,
    )


@dataclass(slots=True)
class _Open:
    """Dons without a doff so far, the newest last; closed ones are removed when met."""

    all: list[_Don] = field(default_factory=list)
    by_masque: dict[str, list[_Don]] = field(default_factory=lambda: defaultdict(list))

    def add(self, don: _Don) -> None:
        self.all.append(don)
        self.by_masque[don.masque].append(don)

    def close(self, doff: _Doff) -> bool:
        """Give a doff to the newest don that it can end; False if there is none."""
        candidates = self.all if doff.masque is None else self.by_masque[doff.masque]
        while candidates and candidates[-1].doff is not None:
            candidates.pop()
        if not candidates:
            return False
        candidates.pop().doff = doff
        return True


def _matched(rows: Iterable[tuple[int, int, int, bool, str | None]]) -> list[_Don]:
    """Return the dons of a session with their doffs."""
    dons: list[_Don] = []
    waiting = _Open()
    for time_us, at_once in groupby(rows, itemgetter(2)):
        new, doffs = [], []
        for _, position, _, is_don, masque in at_once:
            if is_don and masque is not None:
                new.append(_Don(position, time_us, masque))
            else:
                doffs.append(_Doff(position, time_us, masque))
        # At one time the previous masques are taken off first.
        left = [doff for doff in doffs if not waiting.close(doff)]
        for don in new:
            waiting.add(don)
        for doff in left:
            waiting.close(doff)
        dons += new
    return dons


def _wearings(dons: list[_Don]) -> list[_Wearing]:
    """Return the wearings of a session: of the masques that are on, the one put on last."""
    found: list[_Wearing] = []
    stack: list[_Don] = []
    off: set[_Don] = set()
    for _, don, is_don in sorted(_changes(dons), key=itemgetter(0)):
        if is_don:
            if stack and stack[-1].doff is None:
                stack.pop()
            stack.append(don)
            _begin(found, _Wearing(don.masque, don.time_us, don.time_us, don.position))
        elif doff := don.doff:
            off.add(don)
            if stack[-1] is don:
                found[-1].doff = doff
                while stack and stack[-1] in off:
                    stack.pop()
                if stack:
                    outer, at_us = stack[-1].masque, doff.time_us
                    _begin(found, _Wearing(outer, at_us + 1, at_us, doff.position))
    return found


def _begin(found: list[_Wearing], wearing: _Wearing) -> None:
    """Add a wearing; those that began at the same moment or just after it have not been worn.

    What an inner doff uncovers is worn from just after it, and another masque may be put on then.
    """
    while found and found[-1].worn_from_us >= wearing.worn_from_us:
        found.pop()
    found.append(wearing)


def _changes(dons: list[_Don]) -> Iterator[tuple[tuple[int, int, int], _Don, bool]]:
    """Yield a sort key, a don, and whether it is put on or taken off then."""
    ordered = sorted(dons, key=attrgetter("position"))
    ordered.sort(key=_outermost_first)
    for order, don in enumerate(ordered):
        yield (don.time_us, 1, order), don, True
        if don.doff:
            # What was on before goes first, and of it the outer one, so that nothing uncovers it.
            yield (don.doff.time_us, int(don.is_instant), order), don, False


def _outermost_first(don: _Don) -> tuple[bool, float]:
    """Order masques put on at one time: one that stays on longer is outside of the others.

    One that is taken off at once comes first, because it must not end or cover any that stays.
    """
    return not don.is_instant, -don.doff.time_us if don.doff else -math.inf


TREND_DAYS = 7
MIN_SESSIONS = 5
"""With fewer sessions in a week its mean says little, and no trend is shown."""


def masque_table(performance: pl.DataFrame, last_date: date) -> pl.DataFrame:
    """Return one row per masque, the best first.

    Args:
        performance: Rows of ``session_performance``. Remainder windows (work between two masques
            of a session) belong to no masque and are left out.
        last_date: Last session date of the trend.

    Returns:
        ``masque`` (null: baseline), ``sessions`` with a score, ``composite`` (their mean),
        ``recommendation`` for it, and ``trend``: the mean composite of the seven dates up to
        ``last_date`` minus that of the seven dates before; null if either has fewer than 5
        sessions.
    """
    scored = performance.filter(pl.col("scorable"), pl.col("attribution") != "remainder")
    middle = last_date - timedelta(days=TREND_DAYS)
    first = middle - timedelta(days=TREND_DAYS)
    day = pl.col("session_date")
    late = _mean_composite(day.is_between(middle, last_date, closed="right"))
    early = _mean_composite(day.is_between(first, middle, closed="right"))
    return (
        scored.group_by("masque")
        .agg(
            sessions=pl.len(),
            composite=pl.col("composite").mean(),
            scorable=pl.lit(value=True),
            trend=late - early,
        )
        .with_columns(recommendation())
        .select("masque", "sessions", "composite", "recommendation", "trend")
        .sort("composite", "masque", descending=[True, False])
    )


def _mean_composite(is_in_week: pl.Expr) -> pl.Expr:
    mean = pl.col("composite").filter(is_in_week).mean()
    return pl.when(is_in_week.sum() >= MIN_SESSIONS).then(mean)

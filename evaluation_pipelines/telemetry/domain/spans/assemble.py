"""Assemble the events of a trace from the rows of its spans.

Children arrive before their parents, and some parents never arrive. So nothing here depends on the
order of arrival, and a span without its parent belongs to the turn during which it started.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple, cast

import polars as pl

from evaluation_pipelines.telemetry.domain.dialects.span_source import (
    AGENT,
    ANSWER,
    APPROVAL,
    ASKED,
    CALL,
    CHAIN,
    EXECUTION,
    OUTCOME,
    REPLY,
    TOOL,
    UNNAMED,
)

_IS_PLACEHOLDER = pl.col("span_session_id").str.starts_with("trace:")


@dataclass(frozen=True, slots=True)
class Assembled:
    """Events of traces.

    Attributes:
        events: The kept rows, in the columns of the input. ``subagent``, ``agent_id``,
            ``prompt_id`` and the outcome of tools may differ.
        dropped: Reason -> number of dropped rows.
    """

    events: pl.DataFrame
    dropped: Mapping[str, int]


def trace_sessions(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the session of each trace: the one named by the outermost span with an id.

    Of spans that are not inside each other, the session is the minimum by ``rank``, ``started`` and
    ``span_id``.

    Args:
        rows: TRACE_COLUMNS of spans.

    Returns:
        ``organization_id``, ``trace_id``, ``session_id``, ``rank`` (0 of a root, 1 of other
        spans, 2 if their time was replaced, 4 for a linked trace), ``started`` (UTC microseconds)
        and ``span_id``: one row per trace in which a span names a session.
    """
    named = rows.filter(pl.col("span_session_id").is_not_null())
    sessions = named.group_by("trace_id").agg(pl.col("span_session_id").n_unique())
    several = sessions.filter(pl.col("span_session_id") > 1)
    if not several.is_empty():
        of_several = rows.join(several, on="trace_id", how="semi")
        inner = pl.DataFrame(sorted(_inner(of_several)), _SPAN, orient="row")
        named = named.join(inner, on=[*_SPAN], how="anti", maintain_order="left")
    rank = (
        pl.when(_IS_PLACEHOLDER)
        .then(4)
        .when(pl.col("parent_span_id").is_null())
        .then(0)
        .otherwise(1 + pl.col("time_anomaly").fill_null(value=False))
    )
    return (
        named.lazy()
        .filter(pl.col("trace_id").is_not_null())
        .select(
            "organization_id",
            "trace_id",
            pl.col("span_session_id").alias("session_id"),
            rank.cast(pl.Int8).alias("rank"),
            _started().alias("started"),
            "span_id",
        )
        .sort("rank", "started", "span_id", "session_id")
        .unique(["organization_id", "trace_id"], keep="first", maintain_order=True)
        .collect()
    )


TRACE_COLUMNS = (
    *("organization_id", "trace_id", "span_id", "parent_span_id", "span_role", "span_session_id"),
    *("event_time", "duration_ms", "time_anomaly"),
)
_SPAN = {"trace_id": pl.String, "span_id": pl.String}


def _inner(rows: pl.DataFrame) -> set[tuple[str, str]]:
    """Return the trace and id of the spans with a session below another one with a session."""
    spans = rows.select("trace_id", "span_id", "parent_span_id").iter_rows()
    parents = {(trace, span): (trace, parent) for trace, span, parent in spans}
    names = set(rows.filter(~_IS_PLACEHOLDER).select(*_SPAN).iter_rows())
    below = dict[tuple[str, str], bool]()
    for name in sorted(names):
        path, at = dict[tuple[str, str], None](), cast("tuple[str, str] | None", name)
        while at is not None and at not in below and at not in path:
            path[at] = None
            at = parents.get(at)
        is_below = at in below and (below[at] or at in names)
        for span_id in reversed(path):
            below[span_id] = is_below
            is_below = is_below or span_id in names
    return {name for name in names if below[name]}


def _started() -> pl.Expr:
    ms = pl.when(pl.col("span_role").is_in([CALL, TOOL])).then("duration_ms").fill_null(0)
    return pl.col("event_time") - pl.duration(microseconds=(ms * 1000).round().cast(pl.Int64))


def assemble(rows: pl.DataFrame) -> Assembled:
    """Return the events of traces.

    Args:
        rows: Rows of AGENT_EVENTS_LANDED with a ``trace_id``: all rows of each trace, in any
            order, with repeats.
    """
    once = rows.sort("source_file_id", "source_offset").unique(
        ["organization_id", "event_id"], keep="first", maintain_order=True
    )
    kept = _Kept()
    if rows.height > once.height:
        kept.dropped["repeated span"] = rows.height - once.height
    read = once.with_row_index("row").with_columns(started=_started().dt.epoch("us"))
    read = read.sort("organization_id", "trace_id", "row").select(_Row._fields)
    for _, trace in groupby(read.iter_rows(), key=itemgetter(1, 2)):
        spans = _trees(map(_Row._make, trace))
        _keep(spans, _place(spans), kept)
    return Assembled(kept.of(once), kept.dropped)


class _Row(NamedTuple):
    """Columns of a row that decide."""

    row: int
    organization_id: str | None
    trace_id: str
    span_id: str
    parent_span_id: str | None
    span_role: str
    started: int
    duration_ms: float | None
    agent_id: str | None
    subagent: str | None
    event_name: str
    has_content: bool | None
    success: bool | None
    decision: str | None
    error_type: str | None
    error_event_id: bytes | None
    event_id: bytes
    output_tokens: int | None


_CHANGED = (
    *("agent_id", "subagent", "prompt_id"),
    *("success", "decision", "error_type", "error_event_id"),
)


@dataclass(slots=True)
class _Kept:
    """Rows to keep with their changed columns, and why others are dropped."""

    rows: list[int] = field(default_factory=list)
    columns: list[tuple[Any, ...]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    def add(self, row: _Row, span: "_Span") -> None:
        self.rows.append(row.row)
        outcome = row.success, row.decision, row.error_type, row.error_event_id
        self.columns.append((span.agent, span.subagent, span.turn, *outcome))

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the kept rows of ``rows``."""
        changed = zip(*self.columns, strict=True) if self.columns else [()] * len(_CHANGED)
        return rows[pl.Series(self.rows, dtype=pl.UInt32)].with_columns(
            pl.Series(name, list(values), dtype=rows.schema[name])
            for name, values in zip(_CHANGED, changed, strict=True)
        )


@dataclass(slots=True, eq=False)
class _Span:
    """A span, its rows by role, and its place in the tree.

    Attributes:
        main: The row with the role of the span.
        others: Its other rows by role.
        parent: The span above it, if it arrived.
        turn: Id shared by the rows of one turn.
        agent: Name of the agent of the turn.
        nearest_agent: Name of the agent directly above it.
        subagent: Name of the sub-agent at work.
        below_tool: True if a tool called it without an agent between them.
        called: Name of the sub-agent started by the tool above it.
        call: The enclosing call to a model.
        has_inner: True for a call with a more detailed one inside it.
        is_inner: True for a call with less detail than the one around it.
    """

    main: _Row
    others: dict[str, _Row]
    parent: "_Span | None" = None
    children: "list[_Span]" = field(default_factory=list)
    turn: str | None = None
    agent: str | None = None
    nearest_agent: str | None = None
    subagent: str | None = None
    below_tool: bool = False
    called: str | None = None
    call: "_Span | None" = None
    has_inner: bool = False
    is_inner: bool = False

    @property
    def role(self) -> str:
        return self.main.span_role

    @property
    def order(self) -> tuple[int, int, str]:
        """Sort key: an outer span comes before its inner spans."""
        return self.main.started, -self.ended, self.main.span_id

    @property
    def ended(self) -> int:
        ms = self.main.duration_ms
        return self.main.started + (0 if ms is None else round(ms * 1000))

    def enter(self, parent: "_Span") -> None:
        """Inherit turn and agents from the span above."""
        self.turn, self.agent, self.subagent = parent.turn, parent.agent, parent.subagent
        self.nearest_agent, self.called, self.call = (
            parent.nearest_agent,
            parent.called,
            parent.call,
        )
        self.below_tool = parent.below_tool or parent.role == TOOL
        if parent.role == TOOL:
            self.called = parent.main.subagent or parent.called
        own = self.main.agent_id
        is_other = own is not None and own != self.nearest_agent
        if self.role == AGENT:
            if self.below_tool or (is_other and self.nearest_agent is not None):
                self.subagent = own or self.called or self.subagent or UNNAMED
            elif self.subagent is None:
                self.agent = own or self.agent
            self.nearest_agent = own or self.nearest_agent or UNNAMED
            self.below_tool, self.call = False, None
        elif self.below_tool and self.role in (CALL, TOOL):
            named = own if is_other else None
            self.subagent = self.called or named or self.subagent or UNNAMED
        elif self.agent is None:
            self.agent = own
        self._enter_call()

    def _enter_call(self) -> None:
        """Mark nested calls: two libraries report one call, and the innermost one counts."""
        if self.role == TOOL:
            self.call = None
        elif self.role == CALL:
            if self.call is not None:
                is_detailed = (
                    self.main.event_name == "api_error" or self.main.output_tokens is not None
                )
                self.call.has_inner |= is_detailed
                self.is_inner = not is_detailed
            self.call = self

    def start(self, turn: str) -> None:
        """Become the top of a turn."""
        self.turn, self.agent = turn, self.main.agent_id
        if self.role == AGENT:
            self.nearest_agent = self.main.agent_id or UNNAMED
        elif self.role == CALL:
            self.call = self


_OF_A_SPAN = (REPLY, ASKED, ANSWER)


def _trees(rows: Iterable[_Row]) -> list[_Span]:
    """Return the spans of a trace in order, each below its parent."""
    by_span: dict[str, dict[str, _Row]] = defaultdict(dict)
    for row in rows:
        by_span[row.span_id][row.span_role] = row
    spans = []
    for roles in by_span.values():
        main = next((role for role in roles if role not in _OF_A_SPAN), next(iter(roles)))
        spans.append(_Span(roles.pop(main), roles))
    spans.sort(key=lambda span: span.order)
    by_id = {span.main.span_id: span for span in spans}
    for span in spans:
        parent = by_id.get(span.main.parent_span_id or "")
        span.parent = None if parent is span else parent
    _cut_cycles(spans)
    return spans


def _cut_cycles(spans: Sequence[_Span]) -> None:
    """Make the first span of each cycle a top."""
    done = set[int]()
    for span in spans:
        path, at = list[_Span](), cast("_Span | None", span)
        on_path = set[int]()
        while at is not None and id(at) not in done and id(at) not in on_path:
            on_path.add(id(at))
            path.append(at)
            at = at.parent
        if at is not None and id(at) in on_path:
            min(path[path.index(at) :], key=lambda span: span.order).parent = None
        done |= on_path


def _place(spans: Sequence[_Span]) -> list[_Span]:
    """Give each span its turn and agent, and return the tops of turns."""
    tops = [span for span in spans if span.parent is None]
    turns = _turns(tops)
    started, ids = [turn.main.started for turn in turns], {turn.main.span_id for turn in turns}
    for span in tops:
        if span.main.span_id in ids:
            span.start(span.main.span_id)
        elif turns:
            at = bisect_right(started, span.main.started)
            span.parent = (
                _around(span, turns[max(0, at - _MOST_TURNS) : at]) or turns[max(0, at - 1)]
            )
        else:
            span.start(span.main.parent_span_id or span.main.trace_id)
    for span in spans:
        if span.parent is not None:
            span.parent.children.append(span)
    waiting = [span for span in tops if span.parent is None]
    while waiting:
        span = waiting.pop()
        for child in span.children:
            child.enter(span)
        waiting += span.children
    return turns


def _turns(tops: Sequence[_Span]) -> list[_Span]:
    """Return the tops of turns: agents, and the chains around their steps.

    Steps with the same missing parent are one turn.
    """
    turns, missing = list[_Span](), set[str | None]()
    for span in tops:
        parent_id = span.main.parent_span_id
        is_step = span.role == CHAIN and parent_id in missing
        if span.role not in (AGENT, CHAIN) or is_step:
            continue
        if parent_id is None or _around(span, turns[-_MOST_TURNS:]) is None:
            turns.append(span)
            missing |= {parent_id} - {None}
    return turns


_MOST_TURNS = 100
"""Turns before an orphan in which it is looked for."""


def _around(span: _Span, turns: Sequence[_Span]) -> _Span | None:
    """Return the last turn during which a span without its parent started."""
    return next(
        (
            turn
            for turn in reversed(turns)
            if turn.main.started <= span.main.started <= turn.ended
            and turn.main.parent_span_id != span.main.parent_span_id
        ),
        None,
    )


def _keep(spans: Sequence[_Span], turns: Sequence[_Span], kept: _Kept) -> None:
    """Keep the events among the rows of a trace."""
    tops = {span.turn: span for span in turns}
    by_turn: dict[str | None, list[_Span]] = defaultdict(list)
    for span in spans:
        by_turn[span.turn].append(span)
    for turn, inside in by_turn.items():
        stays = list[tuple[_Row, _Span]]()
        calls = [span for span in inside if span.role == CALL]
        stays += [(s.main, s) for s in calls if not (s.has_inner or s.is_inner)]
        replies = [(s.others[REPLY], s) for s in calls if REPLY in s.others and _is_reply(s)]
        stays += replies
        if all(span.subagent is not None for _, span in replies):
            answers = ((s.others[ANSWER], s) for s in _own(inside) if ANSWER in s.others)
            stays += islice(answers, 1)
        stays += islice(_prompts(tops.get(turn), inside), 1)
        stays += [(_settled(span), span) for span in inside if span.role == TOOL]
        stays += [(span.main, span) for span in inside if span.role == OUTCOME]
        for row, span in stays:
            kept.add(row, span)
        _count(inside, {row.row for row, _ in stays}, kept.dropped)


def _own(spans: Iterable[_Span]) -> Iterator[_Span]:
    return (span for span in spans if span.subagent is None)


def _is_reply(span: _Span) -> bool:
    """Return False for the reply of a call if a nested call has the same reply."""
    if span.is_inner:
        return False
    return not (span.has_inner and _any_reply_below(span))


def _any_reply_below(span: _Span) -> bool:
    waiting = list(span.children)
    while waiting:
        child = waiting.pop()
        if child.role in (TOOL, AGENT):
            continue
        if child.role == CALL and REPLY in child.others:
            return True
        waiting += child.children
    return False


def _prompts(top: _Span | None, inside: Sequence[_Span]) -> Iterator[tuple[_Row, _Span]]:
    """Yield candidates for the prompt of a turn, the best first.

    It is on the turn itself, else on its first call, else on an agent inside it.
    """
    if top is not None and top.main.has_content:
        yield top.main, top
    first = next((span for span in _own(inside) if span.role == CALL), None)
    # Either of two nested calls may have the messages.
    while first is not None:
        if ASKED in first.others:
            yield first.others[ASKED], first
        first = next((child for child in first.children if child.role == CALL), None)
    if top is not None:
        for span in _own(inside):
            if span.role in (AGENT, CHAIN) and span.main.has_content:
                yield span.main, span
        yield top.main, top


def _settled(span: _Span) -> _Row:
    """Return the row of a tool with the outcome from the spans below it."""
    row = span.main
    for child in span.children:
        if child.role == EXECUTION:
            main, error = child.main, child.main.error_type or row.error_type
            row = row._replace(success=main.success, error_type=error, error_event_id=main.event_id)
        elif child.role == APPROVAL and child.main.decision is not None:
            row = row._replace(decision=child.main.decision)
    return row


_REASONS = {
    ASKED: "repeated prompt",
    REPLY: "repeated call",
    CALL: "repeated call",
    ANSWER: "repeated reply",
    AGENT: "agent within a turn",
    CHAIN: "agent within a turn",
    EXECUTION: "part of a tool call",
    APPROVAL: "part of a tool call",
}


def _count(spans: Sequence[_Span], stays: set[int], dropped: Counter[str]) -> None:
    for span in spans:
        for row in (span.main, *span.others.values()):
            if row.row not in stays:
                dropped[_REASONS.get(row.span_role, "other span")] += 1

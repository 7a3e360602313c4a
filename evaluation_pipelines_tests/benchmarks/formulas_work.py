"""A million made-up sessions, scored by the program's formulas and by a Python loop."""

from collections import Counter
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.sessions.domain.performance import score_sessions

_WEIGHTS = (0.30, 0.25, 0.20, 0.15, 0.10)


def score_with_polars(sessions: int) -> dict[str, Any]:
    """The program's own formulas; gives seconds and what came out, in numbers."""
    frame = _sessions(sessions)
    began = perf_counter()
    scored = score_sessions(frame)
    seconds = perf_counter() - began
    composites = scored["composite"].to_list()
    return {"seconds": seconds, **_summary(composites, scored["recommendation"].to_list())}


def score_with_loop(sessions: int) -> dict[str, Any]:
    """The same formulas as a plain loop over rows that are in memory already."""
    rows = _sessions(sessions).to_dicts()
    began = perf_counter()
    scored = [_score(row) for row in rows]
    seconds = perf_counter() - began
    return {
        "seconds": seconds,
        **_summary([row["composite"] for row in scored], [row["recommendation"] for row in scored]),
    }


def _score(row: dict[str, Any]) -> dict[str, Any]:
    total, ok = row["total_tools"], row["tools_ok"]
    quality = autonomy = productivity = tokens = cost = composite = None
    if total > 0:
        quality = _clipped(ok / total * 10)
        autonomy = _clipped(total / max(row["prompts"], 1) * 2)
        productivity = _clipped(ok / max(row["active_s"] / 60, 1.0) * 10)
        if row["total_tokens"] and row["cache_read_tokens"] is not None:
            tokens = _clipped(row["cache_read_tokens"] / row["total_tokens"] * 10)
        if row["cost_usd"] is not None:
            cost = _clipped(10 - row["cost_usd"] / max(ok, 1) * 100)
    dimensions = (quality, autonomy, productivity, tokens, cost)
    known = [
        (value, weight)
        for value, weight in zip(dimensions, _WEIGHTS, strict=True)
        if value is not None
    ]
    if known:
        weighted = sum(value * weight for value, weight in known)
        composite = _clipped(weighted / sum(weight for _, weight in known))
    partial = total > 0 and len(known) < len(dimensions)
    return {
        **{name: row[name] for name in ("session_key", "session_id", "organization_id")},
        "quality": quality,
        "autonomy": autonomy,
        "productivity": productivity,
        "token_efficiency": tokens,
        "cost_efficiency": cost,
        "composite": composite,
        "recommendation": _recommendation(composite),
        "scorable": total > 0,
        "partial": partial,
        "reason": _reason(total, tokens, cost) if partial or not total else None,
    }


def _clipped(value: float) -> float:
    return min(max(value, 0.0), 10.0)


def _recommendation(composite: float | None) -> str | None:
    if composite is None:
        return None
    shown = int(round(composite, 9) * 10 + 0.5) / 10
    return "keep" if shown >= 7 else "review" if shown >= 4 else "doff"


def _reason(total: int, tokens: float | None, cost: float | None) -> str:
    if not total:
        return "no tool call with a known outcome"
    unknown = [("tokens unknown", tokens), ("cost unknown", cost)]
    return ", ".join(text for text, value in unknown if value is None)


def _summary(composites: list[float | None], recommendations: list[str | None]) -> dict[str, Any]:
    known = [value for value in composites if value is not None]
    counts = Counter(map(str, recommendations))
    return {"composites": round(sum(known), 3), **dict(sorted(counts.items()))}


def _sessions(count: int) -> pl.DataFrame:
    """Rows of ``agent_sessions``: a tenth without tool calls, a twentieth without cost, tokens."""
    random = np.random.default_rng(1)
    total = np.where(random.random(count) < 0.1, 0, random.integers(1, 60, count))
    tokens = random.integers(1, 10**6, count)
    given: dict[str, Any] = {
        "session_key": [f"{number:08x}#baseline-1" for number in range(count)],
        "session_id": [f"{number:08x}" for number in range(count)],
        "organization_id": ["default"] * count,
        "total_tools": total,
        "tools_ok": (total * random.random(count)).astype(np.int64),
        "prompts": random.integers(0, 20, count),
        "active_s": random.random(count) * 7200,
        "total_tokens": tokens,
        "cache_read_tokens": (tokens * random.random(count)).astype(np.int64),
        "cost_usd": random.random(count) * 3,
    }
    unknown = pl.Series(random.random(count) < 0.05)
    wanted = AGENT_SESSIONS.schema
    columns = [
        pl.Series(name, given[name]).cast(wanted[name])
        if name in given
        else pl.Series(name, [None], dtype=wanted[name]).new_from_index(0, count)
        for name in wanted
    ]
    nulled = ("total_tokens", "cache_read_tokens", "cost_usd")
    return pl.DataFrame(columns).with_columns(
        pl.when(~unknown).then(pl.col(name)).alias(name) for name in nulled
    )

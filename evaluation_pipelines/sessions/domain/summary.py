"""The score of one session as a summary for people and a record for programs.

Both have the same shape. Numbers of the summary are rounded half up, those of the record are not
rounded. Unknown values are null in both.
"""

from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from math import isfinite
from typing import Any

import polars as pl
import yaml

from evaluation_pipelines.sessions.domain.performance import WEIGHTS
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS

# Wide enough for the largest float: telemetry may claim any cost.
_EXACT = Context(prec=400)

_IDENTITY = ("organization_id", "session_key", "session_id", "source_cli", "scorable")

_SILENT_ON_EXIT_CODES = {dialect.source_cli for dialect in DIALECTS if not dialect.sends_exit_codes}


def session_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one session with unrounded numbers, for programs.

    Args:
        row: A row of ``agent_sessions`` joined with its row of ``session_performance``.
    """
    return {name: row[name] for name in _IDENTITY} | _measured(row)


def session_summary(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one session with rounded numbers, for people.

    Fractions are ``Decimal`` with a fixed number of places.

    Args:
        row: A row of ``agent_sessions`` joined with its row of ``session_performance``.
    """
    summary = _measured(row)
    stats = summary["stats"]
    for name in ("duration_min", "active_min"):
        summary[name] = _whole(summary[name])
    summary["dimensions"] = {
        name: _rounded(score, places=1) for name, score in summary["dimensions"].items()
    }
    summary["composite"] = _rounded(summary["composite"], places=1)
    stats["total_cost"] = _rounded(stats["total_cost"], places=2)
    stats["tool_success_pct"] = _whole(stats["tool_success_pct"])
    return summary


def to_yaml(summary: Mapping[str, Any]) -> str:
    """Return the summary as YAML in its key order; names from telemetry are quoted if needed."""
    return yaml.dump(
        dict(summary),
        Dumper=_SummaryDumper,
        sort_keys=False,
        # YAML allows some characters that reverse or break a line on a terminal: escape them.
        allow_unicode=str(summary["masque"]).isprintable(),
        width=2**31,
    )


def _measured(row: Mapping[str, Any]) -> dict[str, Any]:
    share_ok = row["tools_ok"] / row["total_tools"] * 100 if row["total_tools"] else None
    # Telemetry can claim any cost; the sum can be infinite, which JSON cannot represent.
    cost_usd = row["cost_usd"] if isfinite(row["cost_usd"] or 0) else None
    return {
        "masque": "baseline" if row["masque"] is None else row["masque"],
        "duration_min": max(row["duration_s"] / 60, 1.0),
        "active_min": max(row["active_s"] / 60, 1.0),
        "dimensions": {name: row[name] for name in WEIGHTS},
        "composite": row["composite"],
        "recommendation": row["recommendation"],
        **_remarks(row),
        "stats": {
            "total_cost": cost_usd,
            "total_tools": row["total_tools"],
            "tools_ok": row["tools_ok"],
            "tool_success_pct": share_ok,
            "prompts": row["prompts"],
            "total_tokens": row["total_tokens"],
            "cache_tokens": row["cache_read_tokens"],
        },
    }


def _remarks(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to know about a score; empty for most."""
    remarks: dict[str, Any] = {"partial": True} if row["partial"] else {}
    if row["reason"] is not None:
        remarks["reason"] = row["reason"]
    failed, total = row["tools_failed"], row["total_tools"]
    if total and 2 * failed >= total:
        remarks["warning"] = f"{failed} of {total} tool calls failed"
    if row["source_cli"] in _SILENT_ON_EXIT_CODES and "shell" in _classes(row["tool_mix"]):
        remarks["note"] = (
            f"{row['source_cli']} does not send all exit codes: shell commands that failed may "
            "count as successful"
        )
    return remarks


def _classes(tool_mix: Sequence[Mapping[str, Any]] | None) -> set[str]:
    return {entry["key"] for entry in tool_mix or ()}


def _rounded(value: float | None, places: int) -> Decimal | None:
    """Round half up to fixed places, after rounding to nine decimals to remove float noise."""
    if value is None or not isfinite(value):
        return None
    smallest = Decimal(1).scaleb(-places)
    return Decimal(repr(round(value, 9))).quantize(smallest, ROUND_HALF_UP, context=_EXACT)


def _whole(value: float | None) -> int | None:
    rounded = _rounded(value, places=0)
    return None if rounded is None else int(rounded)


class _SummaryDumper(yaml.SafeDumper):
    """YAML dumper that writes a ``Decimal`` as a number with all its places, and no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_decimal(dumper: _SummaryDumper, value: Decimal) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:float", f"{value:f}")


_SummaryDumper.add_representer(Decimal, _represent_decimal)


SUMMED = ("uses", "calls", "api_requests", "total_tokens", "cost_usd")
"""Figures of a sub-agent, skill or slash command; each is null if no record tells it."""


def uses_of(kind: str, sessions: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each name that a session used, with SUMMED in place of the session's own.

    Args:
        kind: One of USED_KINDS.
        sessions: Rows of AGENT_SESSIONS.

    Returns:
        The other columns of the session, ``used_name`` and SUMMED.
    """
    names = pl.element().struct.field("kind") == kind
    of_kind = sessions.with_columns(pl.col("used").list.filter(names)).explode("used")
    return of_kind.drop_nulls("used").with_columns(
        pl.col("used").struct.field("name").alias("used_name"),
        *(pl.col("used").struct.field(name) for name in SUMMED),
    )


def used_by(kind: str, sessions: pl.DataFrame) -> pl.DataFrame:
    """Sum uses over sessions, the most expensive first.

    Args:
        kind: One of USED_KINDS.
        sessions: Rows of AGENT_SESSIONS.

    Returns:
        ``used_name``; ``sessions``; sums of SUMMED over the sessions in which they are known, null
        if they are in none; and ``known_costs``, the number of sessions whose cost is known.
    """
    sums = [
        pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name)
        for name in SUMMED
    ]
    return (
        uses_of(kind, sessions)
        .group_by("used_name")
        .agg(
            pl.struct("organization_id", "session_id").n_unique().cast(pl.Int64).alias("sessions"),
            *sums,
            known_costs=pl.col("cost_usd").count().cast(pl.Int64),
        )
        .sort(-pl.col("cost_usd"), -pl.col("total_tokens"), "used_name", nulls_last=True)
    )

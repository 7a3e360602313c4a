"""What the terminal program prints of tool reports."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from evaluation_pipelines.cli.terminal import counted, one_line, print_table, say

_SHOWN = 20
"""Places of each kind that are printed; --format json has more of them."""
_TEXT_LETTERS = 60

Report = Mapping[str, Any]
"""A row of ``tool_reports``."""


def print_report(report: Report) -> None:
    """The score, what was lost at which tool, and where: worst first."""
    _print_head(report)
    _print_by_tool(report)
    _print_places(
        "Failed",
        ("call #", "time (UTC)", "tool", "parameters", "error"),
        report["failures"],
        lambda at: (
            *(at["call"], _clock(at["called_at"]), at["tool"]),
            *(_short(at["parameters"]), _short(at["error"])),
        ),
    )
    _print_places(
        "Failing loops: three or more calls in a row, alike, that all failed",
        ("calls", "first (UTC)", "times #", "tool", "parameters"),
        report["loops"],
        lambda at: (
            f"{at['first_call']}-{at['last_call']}",
            _clock(at["called_at"]),
            at["calls"],
            at["tool"],
            _short(at["parameters"]),
        ),
    )
    _print_places(
        "Repeated: like an earlier call, and nothing was changed in between",
        ("call #", "time (UTC)", "repeats call #", "alike %", "tool", "parameters"),
        report["repeats"],
        lambda at: (
            *(at["call"], _clock(at["called_at"]), at["original"]),
            *(f"{100 * at['similarity']:.0f}", at["tool"], _short(at["parameters"])),
        ),
    )
    _print_places(
        "Wasted: nothing later uses what these calls brought to light",
        ("call #", "time (UTC)", "bytes #", "tool", "parameters"),
        report["wasted"],
        _unused,
    )
    _print_places(
        "Used by no later call; replies are not logged, so they may have served one",
        ("call #", "time (UTC)", "bytes #", "tool", "parameters"),
        report["untraced"],
        _unused,
    )
    _print_places(
        "Corrected: soon after it failed, another tool did what seems to be the same",
        ("call #", "time (UTC)", "failed tool", "parameters", "made good by", "with"),
        report["corrections"],
        lambda at: (
            *(at["call"], _clock(at["called_at"]), at["tool"], _short(at["parameters"])),
            f"{at['correcting_tool']} (call {at['corrected_by']})",
            _short(at["correcting_parameters"]),
        ),
    )


def print_fleet(by_tool: pl.DataFrame, by_model: pl.DataFrame, reports: pl.DataFrame) -> None:
    """Tools and models, those that lose most first, and what the figures mean."""
    days = reports["session_date"].sort().to_list()
    flagged = int(reports["is_flagged"].sum())
    say(
        f"{counted(reports.height, 'session')} with tool calls from {days[0]} to {days[-1]}; "
        f"{flagged} of them below 60"
    )
    for title, name, frame in (("By tool", "tool", by_tool), ("By model", "model", by_model)):
        _print_losses(title, name, frame)
    say(
        "\nlost: failed and wasted calls count 1, corrected and repeated ones 0.5.\n"
        "tokens, USD: of what lost calls gave back, 4 bytes a token, at the mean price of a token "
        "of their session; the least they cost, where sizes are known.\n"
        "share of cost: the cost of each session times the share of its calls that were lost."
    )


def _print_head(report: Report) -> None:
    worn = report["masque"] or "baseline"
    say(
        one_line(
            f"{report['session_key']} of {report['organization_id']}: {worn}, "
            f"{report['model'] or 'model unknown'}, {report['task_class']}, "
            f"{report['started_at']:%Y-%m-%d %H:%M} UTC"
        )
    )
    score, total = report["effectiveness_score"], report["total_calls"]
    if score is None:
        say("effectiveness unknown: no call with a known outcome")
    else:
        flag = ", below 60" if report["is_flagged"] else ""
        lost = f"{report['lost_calls']:g} of {total} calls lost"
        say(f"effectiveness {score:.1f} of 100{flag}: {lost}")
    say(f"counted: {report['basis']}")
    tokens, usd = report["lost_tokens"], report["lost_usd"]
    if tokens:
        money = "cost unknown" if usd is None else f"{usd:.4f} USD"
        say(f"what lost calls gave back: about {tokens:.0f} tokens, {money}, at the least")
    others = {"denied": report["denied_calls"], "of unknown outcome": report["unknown_calls"]}
    if beside := ", ".join(f"{number} {what}" for what, number in others.items() if number):
        say(f"beside these calls: {beside}")


def _print_by_tool(report: Report) -> None:
    columns = (
        *("tool", "calls #", "failed #", "corrected #", "repeated #", "wasted #", "lost #"),
        *("p50 ms #", "p95 ms #", "bytes #"),
    )
    rows = [
        (
            *(each["tool"], each["calls"], each["failed"], each["corrected"], each["repeated"]),
            *(each["wasted"], f"{each['lost_calls']:g}"),
            *(_whole(each["p50_ms"]), _whole(each["p95_ms"]), each["bytes_returned"]),
        )
        for each in report["by_tool"] or []
    ]
    if rows:
        print_table("\nBy tool", columns, rows, essential=7)


def _print_places(
    title: str,
    columns: Sequence[str],
    places: Sequence[Mapping[str, Any]] | None,
    cells: Any,
) -> None:
    if places:
        print_table(f"\n{title}", columns, map(cells, places[:_SHOWN]), essential=len(columns))
        if len(places) > _SHOWN:
            say(f"{len(places) - _SHOWN} more not shown: use --format json")


def _print_losses(title: str, name: str, frame: pl.DataFrame) -> None:
    columns = (
        *(name, "calls #", "lost #", "lost % #", "failed #", "repeated #", "wasted #"),
        *("tokens #", "USD #", "share of cost, USD #", "sizes known #"),
    )
    print_table(f"\n{title}", columns, _losses(name, frame), essential=7)


def _losses(name: str, frame: pl.DataFrame) -> Iterable[tuple[object, ...]]:
    for row in frame.iter_rows(named=True):
        yield (
            *(row[name], row["calls"], f"{row['lost_calls']:g}", f"{row['lost_pct']:.1f}"),
            *(row["failed"], row["repeated"], row["wasted"]),
            *(_whole(row["lost_tokens"]), _money(row["lost_usd"]), _money(row["cost_share_usd"])),
            f"{row['known_sessions']} of {row['sessions']}",
        )


def _unused(at: Mapping[str, Any]) -> tuple[object, ...]:
    size, place = at["bytes_returned"], (at["call"], _clock(at["called_at"]))
    return (*place, size, at["tool"], _short(at["parameters"]))


def _short(text: str | None) -> str | None:
    """A text on one line, cut short; what a terminal would obey is taken out where printed."""
    if text is None:
        return None
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_LETTERS else f"{line[: _TEXT_LETTERS - 1]}…"


def _clock(time: datetime) -> str:
    return f"{time:%H:%M:%S}"


def _whole(number: float | None) -> str | None:
    return None if number is None else f"{number:.0f}"


def _money(usd: float | None) -> str | None:
    return None if usd is None else f"{usd:.2f}"

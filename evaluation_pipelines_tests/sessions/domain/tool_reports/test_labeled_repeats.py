"""Precision and recall of repeated calls on 200 pairs that were labeled by hand."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from evaluation_pipelines_tests.sessions.domain.tool_reports.tool_rows import call, reports

_ROOT = Path(__file__).parents[3]
_PAIRS = _ROOT / "data/tool_calls/repeats.jsonl"
_DOCUMENT = _ROOT.parent / "docs/scoring.md"


@cache
def labeled() -> list[dict[str, Any]]:
    """Return each pair with ``found``: whether its last call is found to repeat its first one."""
    pairs = [json.loads(line) for line in _PAIRS.read_text().splitlines()]
    rows = [
        call(tool, session_id=f"s{number:03}", tool_class=tool_class, parameters=parameters)
        for number, pair in enumerate(pairs)
        for tool, tool_class, parameters in pair["calls"]
    ]
    found = sorted(reports(rows), key=lambda report: str(report["session_id"]))
    return [
        pair | {"found": len(pair["calls"]) in [repeat["call"] for repeat in report["repeats"]]}
        for pair, report in zip(pairs, found, strict=True)
    ]


def test_precision_and_recall_are_those_of_the_document() -> None:
    pairs = labeled()
    found, repeats, both = (
        sum(all(pair[name] for name in names) for pair in pairs)
        for names in (["found"], ["repeat"], ["found", "repeat"])
    )
    stated = re.search(
        r"(\d+) pairs.*?precision is (\d+)% \((\d+) of (\d+)\).*?recall (\d+)% \((\d+) of (\d+)\)",
        " ".join(_DOCUMENT.read_text().split()),
    )

    assert stated is not None
    assert [int(group) for group in stated.groups()] == [
        len(pairs),
        *(round(100 * both / found), both, found),
        *(round(100 * both / repeats), both, repeats),
    ]
    wrong = [pair for pair in pairs if pair["found"] and not pair["repeat"]]
    assert wrong == []  # a repeat that is none lowers a score that people decide on

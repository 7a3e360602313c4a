"""The tables of the documents: results as they are, and every scenario."""

import json
from pathlib import Path

from evaluation_pipelines_tests.benchmarks import coverage, estimators, report, watch
from evaluation_pipelines_tests.simulation.histories import HISTORIES
from evaluation_pipelines_tests.simulation.scenarios import (
    AS_GOOD,
    MONEY_SCENARIOS,
    SCENARIOS,
    WORSE,
)


def between(document: Path, begin: str, end: str) -> str:
    return document.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]


def shown(document: Path, begin: str, end: str, column: int = 0) -> list[str]:
    """Return a column of a table."""
    rows = [line for line in between(document, begin, end).splitlines() if line.startswith("| ")]
    return [row.removeprefix("| ").split(" | ")[column] for row in rows[2:]]


def test_the_document_shows_the_results_as_they_are() -> None:
    run = json.loads(report.RESULTS.read_text(encoding="utf-8"))
    # Refresh it with: make bench
    assert between(report.TABLE, report.BEGIN, report.END) == report.table(run)


def test_the_documents_show_every_scenario_in_order() -> None:
    document = coverage.DOCUMENT
    compared = shown(document, coverage.BEGIN, coverage.END)
    assert compared == [scenario.name for scenario in SCENARIOS]
    priced = shown(document, coverage.MONEY_BEGIN, coverage.MONEY_END)
    of_money = [f"{name}: {kind}" for kind in (WORSE, AS_GOOD) for name in priced]
    assert of_money == [scenario.name for scenario in MONEY_SCENARIOS]
    watched = shown(document, watch.BEGIN, watch.END)
    assert watched == [history.name for history in HISTORIES if history.name in watched]
    assert {"as usual", "8 points less, runs with sd 15"} <= set(watched)
    estimated = shown(estimators.DOCUMENT, estimators.BEGIN, estimators.END, 1)
    assert list(dict.fromkeys(estimated)) == [name for name, _ in estimators.scenarios()]

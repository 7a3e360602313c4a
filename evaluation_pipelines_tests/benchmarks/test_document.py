"""The figures in ``docs/performance.md`` are those of ``results.json``."""

import json

from evaluation_pipelines_tests.benchmarks import report


def test_the_document_shows_the_results_as_they_are() -> None:
    between = report.DOCUMENT.read_text(encoding="utf-8").partition(report.BEGIN)[2]
    run = json.loads(report.RESULTS.read_text(encoding="utf-8"))

    # Refresh it with: make bench
    assert between.partition(report.END)[0] == report.markdown(run)

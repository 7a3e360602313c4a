"""The tables of the documents are those of ``results.json``."""

import json

from evaluation_pipelines_tests.benchmarks import report


def test_the_documents_show_the_results_as_they_are() -> None:
    run = json.loads(report.RESULTS.read_text(encoding="utf-8"))
    for document, table in report.tables(run).items():
        between = document.read_text(encoding="utf-8").partition(report.BEGIN)[2]
        # Refresh it with: make bench
        assert between.partition(report.END)[0] == table

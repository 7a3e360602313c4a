"""What the report says of models that got worse, and of those that are not watched."""

import re
from dataclasses import replace

import polars as pl
import pytest

from evaluation_pipelines.cli.compare import print_answers
from evaluation_pipelines.comparison.domain.findings import got_worse
from evaluation_pipelines.reporting.comparison_report import html_page
from evaluation_pipelines.reporting.domain.comparison_report import (
    PageLinks,
    markdown_report,
    report,
)
from evaluation_pipelines_tests.comparison_builders import (
    compared,
    sample,
    scores,
    three_models,
    worse_lately,
)


def test_an_alert_stands_above_the_answer() -> None:
    found = compared(worse_lately())
    html = html_page(found)
    assert html.index("Got worse") < html.index("only a (provider-a) has at least 30 sessions")
    assert re.search(r"a \(provider-a\) \(label code\): Down [\d.]+ points since 2026-11-14 ", html)
    (alert,) = got_worse(found)
    for key in alert.sessions:
        assert f": {key}</li>" in html
    assert "Monitoring 1 of 1 model-label pairs." in html
    assert "## Monitoring" in markdown_report(found)
    assert '<span class="tag bad">alert</span>' in html


def test_an_alert_has_the_same_words_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(worse_lately())
    (alert,) = got_worse(found)
    assert alert.said.startswith("a (provider-a) (label code): ")
    assert alert.sentence == f"{alert.said} Sessions: {', '.join(alert.sessions)}"
    print_answers(report(found))
    shown = capsys.readouterr().out
    assert shown.index(f"Got worse: {alert.sentence}") < shown.index("  Quality: ")
    markdown = markdown_report(found).replace("\\", "")
    assert markdown.index(f"**Got worse**: {alert.sentence}") < markdown.index("* Quality: ")


def test_models_with_too_few_runs_are_in_no_list_of_pairs_and_counted_as_not_watched() -> None:
    few = [
        row
        for at, name in enumerate(("few", "fewer"))
        for row in sample(name, scores(80, 20, seed=at), 1000 + 100 * at)
    ]
    found = compared([*three_models(), *few])
    assert len(found.pairs) == 10
    for text in (html_page(found), markdown_report(found)):
        assert "fewer than 30 sessions on a side" not in text
        assert "Too few sessions to monitor: 2 more model-label pairs." in text.replace("\\", "")


def test_a_model_that_cannot_be_watched_yet_is_named_with_what_it_takes() -> None:
    found = compared(three_models())
    lacks = found.regressions.filter(pl.col("model") == "aspen")["missing"].item()
    told = f"aspen (provider-a) (code) is not monitored yet: {lacks}."
    assert lacks
    assert told in html_page(found)
    assert told in markdown_report(found).replace("\\", "")


def test_the_sessions_of_an_alert_lead_to_their_pages_and_none_may_be_left() -> None:
    found = compared(worse_lately())
    (alert,) = got_worse(found)
    links = PageLinks(lambda row: f"/sessions/{row['session_key']}", lambda _: "")
    (shown,) = report(found, links).alerts
    assert [url for _, url in shown.sessions] == [f"/sessions/{key}" for key in alert.sessions]
    said = r"[\d.]+, \S+, 2026-11-\d\d \d\d:\d\d"
    assert re.fullmatch(said, shown.sessions[0][0])
    alone = report(found).alerts[0].sessions
    assert [name.rpartition(": ")[2] for name, _ in alone] == list(alert.sessions)
    assert {url for _, url in alone} == {""}
    # All of them wait for a blind review.
    none = found.regressions.with_columns(worst_sessions=pl.lit([], pl.List(pl.String)))
    (without,) = got_worse(replace(found, regressions=none))
    assert without.sentence == alert.said
    assert "<summary>Sessions: " not in html_page(replace(found, regressions=none))

"""The report as HTML, Markdown and terminal: what is in it, its tables, and cards of the worst."""

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from html.parser import HTMLParser
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.cli.compare import print_answers
from evaluation_pipelines.comparison.domain.answers import answers_of, overview
from evaluation_pipelines.comparison.domain.compare import Comparison, Question
from evaluation_pipelines.comparison.domain.findings import findings, got_worse
from evaluation_pipelines.comparison.domain.runs import MODELS
from evaluation_pipelines.reporting.comparison_report import html_page
from evaluation_pipelines.reporting.domain.charts import (
    colors,
    forest,
    scatter,
    shortened,
)
from evaluation_pipelines.reporting.domain.comparison_report import (
    PageLinks,
    markdown_report,
    picture,
    report,
    span_line,
)
from evaluation_pipelines.reporting.domain.comparison_tables import (
    look_command,
    model_cells,
    pair_cells,
    worst_table,
)
from evaluation_pipelines.reporting.pages import one_line
from evaluation_pipelines_tests.world.rows import Row
from evaluation_pipelines_tests.world.runs import (
    SINCE,
    UNTIL,
    audits,
    card,
    cards,
    compared,
    run,
    sample,
    scores,
    three_models,
    worse_lately,
)


class Page(HTMLParser):
    """Texts and tags of a page; fails on a tag that is never closed."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """A tag opens."""
        self.tags.append(tag)
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        """A tag that closes itself."""
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """A tag closes: the one that was opened last."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text between tags."""
        self.texts.append(data)


def spread_over_days(rows: list[Row]) -> list[Row]:
    """Every run a while before the one after it."""
    step = timedelta(days=28) / (len(rows) + 1)
    order = sorted(rows, key=lambda row: int(str(row["session_key"])[1:].partition("#")[0]) % 100)
    return [row | {"started_at": SINCE + step * at} for at, row in enumerate(order)]


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compared(
        [
            *spread_over_days(three_models()),
            *sample("few", scores(80, 3), 400),
            *sample("a", scores(80, 3), 500, classification_label="simple"),
            run(900, None, reason="it has not ended yet"),
        ]
    )


@pytest.fixture(scope="module")
def page(found: Comparison) -> str:
    return html_page(found)


def test_the_page_is_whole_and_loads_nothing(page: str) -> None:
    parsed = Page(page)
    assert parsed.tags.count("script") == 1
    assert not {"img", "iframe", "object"} & set(parsed.tags)
    assert "default-src 'none'" in page
    assert re.findall(r"https?://[^\"' ]+", page.replace("http://www.w3.org/2000/svg", "")) == []


def test_the_answer_comes_first(found: Comparison, page: str) -> None:
    texts = [
        text.strip()
        for text in Page(
            page[page.index("<main>") :]
            .partition("<script>")[0]
            .replace("<main>", "")
            .replace("</main>", "")
        ).texts
    ]
    told = [text for text in texts if text]
    assert told[0] == "Model comparison"
    assert told[2:8] == [heading.removesuffix(" #") for heading in report(found).labels.headings]
    assert told[8:11] == ["code", "cedar (provider-a) or aspen (provider-a)", "conclusive"]
    # 144 of three models, 3 of "few", 3 of another label and one that has not ended.
    assert next(
        sentence for sentence in told if sentence.startswith("144 of 151 sessions are ranked.")
    )


def test_numbers_can_be_sorted_by_their_full_value(page: str) -> None:
    assert 'data-v="0.4"' in page
    assert 'data-v=""' in page  # a rank that is not there


def test_the_sentences_of_the_first_screen_are_the_same_everywhere(
    found: Comparison, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (main, *_) = findings(found)
    said = [*overview(found), *(answer.sentence for answer in answers_of(main, found))]
    assert len(said) == 8
    print_answers(report(found))
    plain = {
        "page": re.sub(r"<[^>]+>", "", page).replace("\N{NO-BREAK SPACE}", " "),
        "markdown": re.sub(r"\\|\*\*", "", markdown_report(found)),
        "terminal": capsys.readouterr().out,
    }
    for where, text in plain.items():
        assert [sentence for sentence in said if sentence not in unescape(text)] == [], where


def test_an_empty_comparison_is_a_page_too() -> None:
    nothing = compared([])
    Page(html_page(nothing))
    assert "No scored sessions in this period" in html_page(nothing)
    assert "No scored sessions in this period" in markdown_report(nothing)


def test_judged_models_show_what_people_would_have_said() -> None:
    judged: dict[str, Any] = {
        "effective_source": "scorecard",
        "profile_id": "p",
        "profile_version": 1,
        "risk_profile_id": "p",
    }
    rows = [
        *sample("a", scores(80, 40, seed=1), 0, people_score=72.0, **judged),
        *sample("b", scores(60, 40, seed=2), 100, **judged),
    ]
    said: list[Row] = [
        {
            "organization_id": "default",
            "session_key": row["session_key"],
            "profile_id": "p",
            "label": float(str(row["score"])) - 8,
            "is_random": True,
        }
        for row in rows[:35]
    ]
    html = html_page(compared(rows, audits=audits(*said)))
    corrected = (
        "a (provider-a): automatic mean 80.0. Corrected by 35 human reviews: 72.0 (67.6 to 73.1)."
    )
    assert corrected in html
    why = "not corrected yet (0 of 30 reviewed sessions needed)."
    assert f"b (provider-a): automatic mean 60.0, {why}" in html
    assert "40 scored by people: 72.0" in html
    # Two of 37 that were drawn have no answer.
    asked: list[Row] = [
        {**said[0], "session_key": row["session_key"], "label": None} for row in rows[35:37]
    ]
    (row, *_) = compared(rows, audits=audits(*said, *asked)).models.rows(named=True)
    ends = f"{row['corrected_score_lowest']:.1f} to {row['corrected_score_highest']:.1f}"
    assert row["corrected_score_lowest"] < 72 < row["corrected_score_highest"]
    html = html_page(compared(rows, audits=audits(*said, *asked)))
    assert f" Unanswered reviews: 2. Whatever their answers: {ends}." in html
    alone = html_page(compared(rows[:40], audits=audits(*said)))
    assert corrected in alone


def test_models_of_a_finding_keep_their_colors_in_all_charts(found: Comparison) -> None:
    first = findings(found)[0]
    assert colors(first) == {
        "aspen (provider-a)": 0,
        "birch (provider-a)": 1,
        "cedar (provider-a)": 2,
        "few (provider-a)": 3,
    }


def test_the_scatter_puts_cost_on_the_right_place(found: Comparison) -> None:
    first = findings(found)[0]
    drawn = scatter(first)
    assert drawn is not None
    # $0 is at 60, $0.5 at 620: $0.4 at 60 + 0.8 * 560 = 508.
    assert '<circle cx="508.0"' in drawn
    assert drawn.count("<circle") == 3
    # The score at 300 is 14 high, with its middle there: costs stand below, not on it.
    assert 'y="322.0" text-anchor="middle"' in drawn
    shown = picture(first)
    assert shown is not None
    assert shown.startswith(
        "![Mean cost of a session against mean score](data:image/svg+xml;base64,"
    )
    assert scatter(replace(first, models=())) is None
    assert forest([]) is None


def test_long_names_are_cut_and_texts_escaped() -> None:
    assert shortened("a" * 40, 10) == "aaaaaaaaa…"
    assert one_line("a" * 300) == "a" * 199 + "…"
    assert one_line("<b>\n\u202e") == "<b>  "
    html = html_page(compared([run(1, 20.0, model="<b>\n\u202e" + "a" * 300)]))
    assert f"&lt;b&gt;  {'a' * 194}…" in html
    assert "<b>" not in html
    assert look_command("it's").endswith(" 'it'\\''s'")


def test_sentences_of_the_report_are_never_cut(found: Comparison) -> None:
    assert "…" not in html_page(found)
    names = [f"{letter * 60}" for letter in "abcdef"]
    page = html_page(compared([run for at, name in enumerate(names) for run in _forty(name, at)]))
    assert all(f"{name} " in page for name in names)


def _forty(model: str, number: int) -> list[Row]:
    return sample(model, scores(80, 40, seed=number + 1), 100 * number)


def test_the_time_range_and_what_narrows_it_are_said() -> None:
    assert span_line(compared(three_models())) == (
        "Sessions started 2026-10-24 to 2026-11-20 (UTC). Updated 2026-11-21 06:00."
    )
    narrowed = compared(
        [run(1)],
        Question(SINCE, UNTIL, label="code", profile="p", organization="o", within="repository"),
        as_of=UNTIL - timedelta(days=1),
    )
    assert span_line(narrowed) == (
        "Sessions started 2026-10-24 to 2026-11-20 (UTC), label code, profile p, "
        "organization o, compared within each repository, scores as of 2026-11-20. "
        "Updated 2026-11-21 06:00."
    )


def test_a_single_person_and_runs_that_nothing_can_settle() -> None:
    rows = [
        run
        for name, start in (("a", 0), ("b", 100))
        for run in sample(name, [80.0] * 30, start, users=1, provider=None)
    ]
    found = compared(rows)
    assert [model_cells(row, MODELS)[2].below for row in found.models.to_dicts()] == [
        "1 person"
    ] * 2
    # Without any variance no number of runs can be worked out.
    (pair,) = found.pairs.to_dicts()
    assert (pair_cells(pair, MODELS)[-1].shown, pair_cells(pair, MODELS)[-1].below) == ("-", "")


@pytest.mark.parametrize(("known", "shown"), [(1, "-"), (29, "$0.50")])
def test_a_cost_says_of_how_many_sessions_it_is_known(known: int, shown: str) -> None:
    rows = sample("a", scores(80, 30), 0)
    costs = [{"cost_usd": 0.5 if at < known else None} for at in range(len(rows))]
    (row,) = compared([a | b for a, b in zip(rows, costs, strict=True)]).models.to_dicts()
    cost = model_cells(row, MODELS)[5]
    assert (cost.shown, cost.below.rpartition("; ")[2]) == (shown, f"known for {known} of 30")


def test_models_without_a_rank_have_no_intervals_of_costs() -> None:
    rows = [*sample("a", scores(80, 30), 0), *sample("few", scores(80, 12), 100)]
    priced = [row | {"cost_usd": 0.4 + at / 100} for at, row in enumerate(rows)]
    for row in compared(priced).models.to_dicts():
        score, passed, cost, worth = model_cells(row, MODELS)[3:]
        assert cost.shown.startswith("$0.")
        assert all((score.below, passed.below, row["avg_cost_usd_low"]))
        is_ranked = row["model"] == "a"
        assert [bool(cell.below) for cell in (cost, worth)] == [is_ranked] * 2


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
    said = r"automatic score [\d.]+, \S+, 2026-11-\d\d \d\d:\d\d"
    assert re.fullmatch(said, shown.sessions[0][0])
    alone = report(found).alerts[0].sessions
    assert [name.rpartition(": ")[2] for name, _ in alone] == list(alert.sessions)
    assert {url for _, url in alone} == {""}
    # All of them wait for a blind review.
    none = found.regressions.with_columns(worst_sessions=pl.lit([], pl.List(pl.String)))
    (without,) = got_worse(replace(found, regressions=none))
    assert without.sentence == alert.said
    assert "<summary>Sessions: " not in html_page(replace(found, regressions=none))


JUDGED: dict[str, Any] = {
    "effective_source": "scorecard",
    "profile_id": "p",
    "profile_version": 3,
    "risk_profile_id": "p",
    "card_id": "card 1",
}


def worst_details(found: Comparison) -> str:
    """Return the cards at the end of the page; empty without any."""
    return html_page(found).partition("Lowest scores, one by one")[2]


def facts(found: Comparison) -> dict[str, str]:
    page = re.sub(r"</?abbr[^>]*>", "", worst_details(found))
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page))


def test_the_worst_are_so_by_the_automatic_score_and_a_persons_is_below_it() -> None:
    found = compared([run(0, 30.0, people_score=0.0), run(1, 60.0)])
    table = worst_table(found)
    first, second = (cells[0] for cells in table.rows)
    assert table.headings[0] == "Automatic score #"
    assert (first.shown, first.below) == ("30.0", "human 0.0")
    assert (second.shown, second.below) == ("60.0", "")


def test_every_row_leads_to_its_card_and_every_card_back() -> None:
    page = html_page(compared([run(at, float(at)) for at in range(12)]))
    links = re.findall(r'<a href="#session-(\d+)">(.*?)</a>', page)
    assert links == [(str(at + 1), f"s{at}#baseline-1") for at in range(10)]
    titles = re.findall(r'id="session-(\d+)"><h3>(\d+)\. (.*?)</h3>', page)
    assert titles == [(place, place, key) for place, key in links]
    assert page.count('<a href="#worst-sessions">') == 10
    assert page.count('id="worst-sessions"') == 1
    # No link leads anywhere else, but for the one of the first screen.
    assert page.count("<a ") == 21
    assert page.count('<a href="#left-out">') == 1


def test_a_card_says_what_is_known_of_a_session() -> None:
    row = run(
        1,
        20.0,
        **JUDGED,
        agent_id="builder",
        masque="Builder",
        tools_ok=1234,
        tools_failed=5,
        total_tokens=56_789,
        active_ms=45_600.0,
        quality_risk=True,
        disqualified=False,
    )
    other = card(card_id="card 2", reasoning="of another session")
    found = replace(compared([row]), cards=cards(card(reasoning="c 2.0\n\nIt guessed."), other))
    assert facts(found) == {
        "Model": "model-a (provider-a)",
        "Label": "code",
        "Task class": "debug",
        "Status": "completed",
        "Organization": "default",
        "Agent": "builder",
        "Masque": "Builder",
        "Started (UTC)": "2026-11-19 00:00",
        "Active time": "45.6 s",
        "Cost": "$0.50",
        "Tokens": "56,789",
        "Tool calls": "1,234 ok, 5 failed",
        "Disqualified": "no",
        "Quality risk": "yes, below the limit of p",
    }
    said = worst_details(found)
    assert "<strong>20.0</strong>" in said
    assert "profile p v3" in said
    assert "Scorecard: 20.0 of 100. On its scale, 0 to 10: c 2.0</p>" in said
    assert '<p class="small">It guessed.</p>' in said
    assert "of another session" not in said
    command = "evaluation-pipelines show"
    assert f"<code>{command} &#39;s1#baseline-1&#39;</code>" in said
    assert f"{command} 's1#baseline-1' |" in markdown_report(found).replace("\\", "")


def test_what_is_not_known_is_not_made_up() -> None:
    names = ("task_class", "status", "cost_usd", "total_tokens", "active_ms", "model", "provider")
    found = compared([run(1, 20.0, **dict.fromkeys(names, None))])
    unknown = {name for name, value in facts(found).items() if value == "unknown"}
    assert unknown == {
        "Model",
        "Task class",
        "Status",
        "Agent",
        "Active time",
        "Cost",
        "Tokens",
        "Tool calls",
        "Disqualified",
        "Quality risk",
    }
    assert facts(found)["Model"] == "unknown"
    assert "Masque" not in facts(found)
    assert "Scorecard" not in worst_details(found)


def test_a_disqualified_session_says_by_what_and_whether_a_person_has_scored_it() -> None:
    out = run(1, 0.0, **JUDGED, disqualified=True, is_disqualified=True)
    rule = cards(card(disqualifier_triggered="rm -rf"))
    assert facts(replace(compared([out]), cards=rule))["Disqualified"] == "yes, by rm -rf"
    assert facts(compared([out]))["Disqualified"] == "yes, by an unknown rule"
    lifted = out | {"people_score": 60.0}
    assert facts(compared([lifted]))["Score by a person"] == "60.0"


def test_without_a_score_there_is_no_card() -> None:
    assert not worst_details(compared([run(1, None)]))
    assert "worst-sessions" not in html_page(compared([run(1, None)]))


def test_an_alert_stands_above_the_answer_in_the_same_words_everywhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = compared(worse_lately())
    (alert,) = got_worse(found)
    html, markdown = html_page(found), markdown_report(found).replace("\\", "")
    assert re.match(r"a \(provider-a\) \(label code\): [\d.]+ points lower since 2026-", alert.said)
    assert alert.sentence == f"{alert.said} Sessions: {', '.join(alert.sessions)}"
    assert html.index(alert.said) < html.index("only a (provider-a) has at least 30 sessions")
    for key in alert.sessions:
        assert f": {key}</li>" in html
    assert "Monitoring 1 of 1 model-label pairs." in html
    assert '<span class="tag bad">alert</span>' in html
    assert "## Monitoring" in markdown
    print_answers(report(found))
    shown = capsys.readouterr().out
    assert shown.index(f"Regression: {alert.sentence}") < shown.index("  Quality: ")
    assert markdown.index(f"**Regression**: {alert.sentence}") < markdown.index("* Quality: ")

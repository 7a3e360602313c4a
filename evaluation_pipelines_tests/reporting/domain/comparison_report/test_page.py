"""The report as HTML and markdown: what is in it, and what its charts show."""

import itertools
import re
from datetime import timedelta
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from evaluation_pipelines.cli.compare import print_answers
from evaluation_pipelines.comparison.domain.answers import answers_of, overview
from evaluation_pipelines.comparison.domain.compare import Comparison, Question
from evaluation_pipelines.comparison.domain.findings import findings
from evaluation_pipelines.reporting.comparison_report import html_page
from evaluation_pipelines.reporting.domain.charts import (
    AxisScale,
    forest,
    scatter,
    shortened,
    trend,
)
from evaluation_pipelines.reporting.domain.comparison_report import (
    colors,
    markdown_report,
    picture,
    report,
)
from evaluation_pipelines.reporting.domain.comparison_tables import look_command
from evaluation_pipelines.reporting.pages import one_line
from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.comparison_builders import (
    SINCE,
    UNTIL,
    audits,
    compared,
    run,
    sample,
    scores,
    three_models,
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
        each.strip()
        for each in Page(
            page[page.index("<main>") :]
            .partition("<script>")[0]
            .replace("<main>", "")
            .replace("</main>", "")
        ).texts
    ]
    told = [each for each in texts if each]
    assert told[0] == "Model comparison"
    assert told[2:8] == [each.removesuffix(" #") for each in report(found).labels.headings]
    assert told[8:11] == ["code", "cedar (provider-a) or aspen (provider-a)", "conclusive"]
    # 144 of three models, 3 of "few", 3 of another label and one that has not ended.
    assert next(each for each in told if each.startswith("144 of 151 sessions are ranked."))


def test_everything_that_was_asked_for_is_on_the_page(page: str) -> None:
    for heading in (
        "Quality vs. cost",
        "Score differences, same task mix",
        "Score distribution",
        "Mean score over time",
        "code: pairs of models",
        "Lowest scores",
        "Sessions not ranked",
        "<summary>Method</summary>",
        "it has not ended yet",
        "one model, 3 of 30",
        "Other groups: 1 (another profile or judge, or too few sessions)",
    ):
        assert heading in page
    assert "evaluation-pipelines show &#39;s" in page
    assert page.count("<svg") == 4
    # One click from the row of a label to its details.
    assert '<a href="#label-1">code</a>' in page
    assert '<dl class="answers card" id="label-1">' in page


def test_a_term_of_statistics_has_its_meaning_in_the_heading(page: str) -> None:
    meaning = "How often chance alone gives such a difference, corrected for all pairs"
    assert f'<th scope="col" class="n"><abbr title="{meaning}">p</abbr></th>' in page


def test_numbers_can_be_sorted_by_their_full_value(page: str) -> None:
    assert 'data-v="0.4"' in page
    assert 'data-v=""' in page  # a rank that is not there


def test_markdown_says_the_same(found: Comparison) -> None:
    text = markdown_report(found)
    assert text.startswith("# Model comparison\n")
    assert "* Quality: **cedar \\(provider\\-a\\) or aspen" in text
    for heading in ("## Lowest scores", "## Sessions not ranked", "### code: pairs"):
        assert heading in text
    assert "<" not in text


def test_the_sentences_of_the_first_screen_are_the_same_everywhere(
    found: Comparison, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (main, *_) = findings(found)
    said = [*overview(found), *(each.sentence for each in answers_of(main, found))]
    assert len(said) == 8
    print_answers(report(found))
    plain = {
        "page": re.sub(r"<[^>]+>", "", page).replace("\N{NO-BREAK SPACE}", " "),
        "markdown": re.sub(r"\\|\*\*", "", markdown_report(found)),
        "terminal": capsys.readouterr().out,
    }
    for where, text in plain.items():
        assert [each for each in said if each not in unescape(text)] == [], where


def test_an_empty_comparison_is_a_page_too() -> None:
    nothing = compared([])
    Page(html_page(nothing))
    assert "No scored sessions in this time" in html_page(nothing)
    assert "No scored sessions in this time" in markdown_report(nothing)


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
    why = "not corrected yet (0 of the 30 audited sessions that it takes)."
    assert f"b (provider-a): automatic mean 60.0, {why}" in html
    assert "40 human: 72.0" in html
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
    drawn = scatter(first.models, colors(first))
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
    assert scatter([], {}) is None
    assert forest([]) is None


def test_pictures_are_left_out_where_there_is_nothing_to_see() -> None:
    rows = [row | {"cost_usd": None} for row in three_models()[:48]]
    (only,) = findings(compared(rows))
    assert picture(only) is None
    unseen = compared([run(at, 80.0, model="a") for at in range(30)], Question(SINCE, UNTIL))
    (alone,) = findings(unseen)
    assert trend(alone, unseen.runs.clear(), (SINCE, UNTIL), colors(alone)) is None


def test_the_trend_draws_means_of_enough_runs_only() -> None:
    days = [0] * 27 + [4] * 3 + [10] * 2  # days after the beginning
    rows = [
        run(at, float(50 + day), model="a", started_at=SINCE + timedelta(days=day, hours=1))
        for at, day in enumerate(days)
    ]
    found = compared(rows)
    (only,) = findings(found)
    drawn = trend(only, found.runs, (SINCE, UNTIL), colors(only))
    assert drawn is not None
    # Two stretches of two days (27 and 3 runs), and the dot of the legend.
    assert drawn.count("<circle") == 3
    assert "27 sessions" in drawn
    assert "2 runs<" not in drawn


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.0, 10.0], [0, 2, 4, 6, 8, 10]),
        ([71.2, 89.0], [70, 75, 80, 85, 90]),
        ([5.0, 5.0], [4.4, 4.6, 4.8, 5.0, 5.2, 5.4, 5.6]),
        ([0.0, 0.0], [-0.1, -0.05, 0, 0.05, 0.1]),
    ],
)
def test_scales_end_at_round_numbers(values: list[float], ticks: list[float]) -> None:
    scale = AxisScale(values, 0, 100)
    assert scale.ticks()[0] <= min(values)
    assert scale.ticks()[-1] >= max(values)
    assert scale.ticks() == pytest.approx(ticks)
    assert [scale(scale.low), scale(scale.high)] == pytest.approx([0, 100])


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
    page = html_page(compared([each for at, name in enumerate(names) for each in _forty(name, at)]))
    assert all(f"{name} " in page for name in names)


def _forty(model: str, number: int) -> list[Row]:
    return sample(model, scores(80, 40, seed=number + 1), 100 * number)


def test_names_of_models_at_the_same_place_stand_below_each_other() -> None:
    rows = [each for at, name in enumerate(("ash", "bay", "elm")) for each in _forty(name, at)]
    only = findings(compared(rows))[0]
    drawn = scatter(only.models, colors(only))
    assert drawn is not None
    found = re.findall(r'y="([0-9.]+)"[^>]*>(ash|bay|elm) ', drawn)
    heights = sorted(float(y) for y, _ in found)
    assert len(heights) == 3
    assert all(low + 20 <= high for low, high in itertools.pairwise(heights))

"""The page about judge changes: its picture, its words, and texts that are not trusted."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from evaluation_pipelines.formatting import signed
from evaluation_pipelines.judge_changes.domain.words import headline, sentences
from evaluation_pipelines.reporting.domain.judge_changes_report.chart import before_bridge_after
from evaluation_pipelines.reporting.domain.judge_changes_report.markdown import markdown_report
from evaluation_pipelines.reporting.domain.judge_changes_report.page import stratum_rows
from evaluation_pipelines.reporting.judge_changes_report import judge_changes_page
from evaluation_pipelines_tests.judge_changes.change_builders import (
    CHANGE,
    NEW,
    simulated,
    unmeasured,
)

NOW = datetime(2026, 7, 1, tzinfo=UTC)
BRIDGED = simulated(4.0, 8.0)
CUT = simulated(-6.0, 0.0, people=3, spread=16.0)
EVIL = "<script>alert(1)</script>"


def texts(svg: str) -> list[str]:
    """The words of a picture."""
    root = ET.fromstring(svg)  # noqa: S314 - our own
    return [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]


def lines(svg: str) -> int:
    """Number of lines over time."""
    return svg.count("<polyline")


def test_the_picture_shows_before_bridge_and_after() -> None:
    svg = before_bridge_after(BRIDGED)
    assert svg is not None
    assert BRIDGED.split is not None

    # As scored by the former judge, the same shifted, and after; the interval is a band.
    assert (lines(svg), svg.count("<polygon")) == (3, 1)
    assert {"Before", "Bridge", "After", "judge-1", "judge-2"} <= {*texts(svg)}
    assert f"+{BRIDGED.split.judges_part.value:.1f} points" in texts(svg)
    assert {"May 4", "Jun 1", "Jun 29"} <= {*texts(svg)}


def test_a_trend_that_is_cut_is_not_shifted() -> None:
    svg = before_bridge_after(CUT)
    assert svg is not None

    assert (lines(svg), svg.count("<polygon")) == (2, 0)
    assert "No bridge" in texts(svg)


def test_a_change_without_a_bridge_shows_a_gap() -> None:
    svg = before_bridge_after(unmeasured(BRIDGED))
    assert svg is not None

    assert lines(svg) == 2
    assert "not measured" in texts(svg)
    assert before_bridge_after(replace(BRIDGED, before=[], after=[])) is None


def test_what_is_missing_is_left_out_of_the_picture() -> None:
    pending = replace(BRIDGED, change=replace(CHANGE, changed_on=None), after=[])
    svg = before_bridge_after(pending)
    assert svg is not None
    assert {"28 days ago", "today"} <= {*texts(svg)}
    impossible = before_bridge_after(replace(unmeasured(BRIDGED), state="impossible", anchors=[]))
    assert impossible is not None
    assert {"not possible", "no session yet"} <= {*texts(impossible)}
    assert BRIDGED.split is not None
    alone = replace(BRIDGED.split.judges_part, variance=None)
    single = before_bridge_after(replace(BRIDGED, split=replace(BRIDGED.split, judges_part=alone)))
    assert single is not None
    assert "No bridge" in texts(single)


def test_a_change_without_scored_anchors_has_dashes() -> None:
    said = markdown_report([unmeasured(BRIDGED), replace(BRIDGED, anchors=[])])

    assert "| general | aspen\\-4 | 200 | 120 | \\- | \\- | \\- |" in said


def test_the_page_answers_first_and_loads_nothing() -> None:
    page = judge_changes_page([BRIDGED, CUT], NOW)

    assert "<h1>Judge changes</h1>" in page
    assert page.index("from the new judge") < page.index("<figure")
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)
    assert "default-src 'none'" in page
    assert "All scores" not in page
    assert "No judge has changed" in judge_changes_page([], NOW)


def test_the_anchors_of_one_label_and_model_differ_by_what_the_headline_says() -> None:
    assert BRIDGED.split is not None
    ((*_, former, new, difference),) = stratum_rows(BRIDGED)

    assert difference == signed(BRIDGED.split.judges_part.value)
    assert f": {difference} (" in headline(BRIDGED)
    assert (
        f"mean {former} from the previous judge, {new} from the new one" in (sentences(BRIDGED)[0])
    )


def test_names_of_models_are_escaped() -> None:
    evil = replace(BRIDGED, change=replace(CHANGE, new=replace(NEW, model=EVIL)))

    assert EVIL not in judge_changes_page([evil], NOW)
    assert "<script" not in markdown_report([evil])


def test_markdown_has_the_same_answer() -> None:
    said = markdown_report([BRIDGED])

    assert "from the new judge" in said
    assert "| general | aspen\\-4 | 200 | 120 |" in said
    assert "No judge has changed" in markdown_report([])

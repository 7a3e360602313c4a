"""The section about a judge change: its picture and its table."""

from dataclasses import replace
from xml.etree import ElementTree as ET

from evaluation_pipelines.formatting import DASH, signed
from evaluation_pipelines.judge_changes.domain.judge_change import headline, sentences
from evaluation_pipelines.service.pages.domain.judge_changes import (
    before_bridge_after,
    stratum_rows,
)
from evaluation_pipelines_tests.judge_changes.change_builders import (
    CHANGE,
    NEW,
    simulated,
    unmeasured,
)

BRIDGED = simulated(4.0, 8.0)
CUT = simulated(-6.0, 0.0, people=3, spread=16.0)


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
    (row,) = stratum_rows(unmeasured(BRIDGED))

    assert row == ("general", "aspen-4", "200", "120", DASH, DASH, DASH)
    assert stratum_rows(replace(BRIDGED, anchors=[])) == []


def test_the_anchors_of_one_label_and_model_differ_by_what_the_headline_says() -> None:
    assert BRIDGED.split is not None
    ((*_, former, new, difference),) = stratum_rows(BRIDGED)

    assert difference == signed(BRIDGED.split.judges_part.value)
    assert f": {difference} (" in headline(BRIDGED)
    assert (
        f"mean {former} from the previous judge, {new} from the new one" in (sentences(BRIDGED)[0])
    )


def test_names_of_models_are_escaped() -> None:
    evil = replace(BRIDGED, change=replace(CHANGE, new=replace(NEW, model="<i>x</i>")))

    assert "<i>" not in (before_bridge_after(evil) or "")

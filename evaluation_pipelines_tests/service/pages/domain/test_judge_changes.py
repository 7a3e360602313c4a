"""The section about a judge change: its picture and its table."""

from dataclasses import replace

from evaluation_pipelines.formatting import DASH, signed
from evaluation_pipelines.judge_changes.domain.judge_change import headline, sentences
from evaluation_pipelines.service.pages.judge import before_and_after, stratum_rows
from evaluation_pipelines_tests.judge_changes.change_builders import changed, simulated, unmeasured

BRIDGED = simulated(4.0, 8.0)
CUT = simulated(-6.0, 0.0, people=3, spread=16.0)


def drawn(svg: str | None) -> tuple[int, int, int]:
    """Number of lines over time, of bands, and of means."""
    svg = svg or ""
    return svg.count("<polyline"), svg.count("<polygon"), svg.count("<circle")


def test_the_picture_shows_scores_before_after_and_adjusted() -> None:
    svg = before_and_after(BRIDGED) or ""

    # As scored by the former judge, the same shifted, and after; the interval is a band.
    # Seven periods of four days on each side, and two names of judges.
    assert drawn(svg) == (3, 1, 7 + 7 + 7 + 2)
    assert "01 Jun" in svg
    assert svg.count('class="mark"') == 1
    first = BRIDGED.means["mean"][0]
    assert f"{first:.1f} points, " in svg
    assert f"{first + BRIDGED.row['judges_part']:.1f} points, " in svg


def test_scores_before_a_break_are_not_adjusted() -> None:
    assert drawn(before_and_after(CUT)) == (2, 0, 7 + 7 + 2)
    assert drawn(before_and_after(unmeasured(BRIDGED))) == (2, 0, 7 + 7 + 2)
    assert before_and_after(replace(BRIDGED, means=BRIDGED.means.clear())) is None


def test_a_judge_that_has_not_begun_has_no_line() -> None:
    past = BRIDGED.means.head(7)
    svg = before_and_after(changed(replace(unmeasured(BRIDGED), means=past), changed_on=None))

    # The days before July 2.
    assert drawn(svg) == (1, 0, 7 + 2)
    assert 'class="mark"' not in (svg or "")
    assert "04 Jun" in (svg or "")


def test_a_change_without_scored_anchors_has_dashes() -> None:
    (row,) = stratum_rows(unmeasured(BRIDGED))

    assert row == ("general", "aspen-4", "200", "120", DASH, DASH, DASH)
    assert stratum_rows(replace(BRIDGED, anchors=BRIDGED.anchors.clear())) == []


def test_the_anchors_of_one_label_and_model_differ_by_what_the_headline_says() -> None:
    ((*_, former, new, difference),) = stratum_rows(BRIDGED)

    assert difference == signed(BRIDGED.row["judges_part"])
    assert f": {difference} (" in headline(BRIDGED.row)
    assert (
        f"mean {former} from the previous judge, {new} from the new one" in (sentences(BRIDGED)[0])
    )

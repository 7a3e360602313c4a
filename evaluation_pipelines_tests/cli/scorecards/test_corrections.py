"""Commands of people's scores: override, confirm, import, calibration."""

import json

import duckdb
import pytest

from evaluation_pipelines_tests.built_before import build_by
from evaluation_pipelines_tests.cli.scorecards.labeled_work import work
from evaluation_pipelines_tests.program import Program


def test_an_override_is_in_the_query_the_lake_and_the_database(scored: Program) -> None:
    stored = scored(
        "scorecards", "override", "a", "--score", "20", "--annotator", "Ada", "--reason", "wrong"
    )
    assert stored.out.startswith(
        "a#baseline-1: now 20 (automatic: 100.0, efficiency-simple, 0 to 100)"
    )

    current = scored("scorecards", "list", "--session", "a", "--profile", "best").table()
    assert current[0][1:2] == ["20.0"]
    assert current[0][4:8] == ["efficiency-simple", "v2", "Ada", "100.0"]
    assert "2026-06-01" in scored("build").out  # no new telemetry: the override made the date due
    scored("publish")
    with duckdb.connect(str(scored.folder / "data" / "analytics.duckdb"), read_only=True) as base:
        effective = base.sql(
            "select effective_100, effective_source from session_evaluations where session_id = 'a'"
        ).fetchall()
        cards = base.sql(
            "select human_override.annotator, overall_score, effective_score from scorecards"
            " where human_override is not null"
        ).fetchall()
        overrides = base.sql("select override_100, automatic_100, state from overrides").fetchall()
    assert effective == [(20.0, "override")]
    assert cards == [("Ada", pytest.approx(100), 20.0)]
    assert overrides == [(20.0, pytest.approx(100), "live")]


def test_an_override_of_a_named_profile_corrects_that_card_only(scored: Program) -> None:
    stored = scored(
        *("scorecards", "override", "a", "--score", "20", "--annotator", "Ada"),
        *("--reason", "wrong", "--profile", "general-performance"),
    )
    assert "for this card, but not for the session" in stored.out
    assert scored("scorecards", "list", "overrides").table()[0][3] == "card_only"
    rows = {row[4]: row[1] for row in scored("scorecards", "list", "--session", "a").table()}

    assert rows["efficiency-simple"] == "100.0"
    assert rows["general-performance"] == "20.0"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ["a", "--score", "101"],
            1,
            "score 101 is not on the scale of efficiency-simple, 0 to 100",
        ),
        (["a", "--score", "1e1"], 2, "is not a plain decimal number"),
        (["a"], 2, "give either --score or --confirm"),
        (["a", "--score", "1", "--confirm"], 2, "give either --score or --confirm"),
        (
            ["a", "--score", "1", "--criterion", "tool_counts"],
            1,
            "no criterion tool_counts, did you mean tool_count? Its criteria: tool_effectiveness,",
        ),
        (["a", "--confirm", "--criterion", "tool_count"], 1, "it names no criterion"),
    ],
)
def test_an_invalid_override_is_refused(
    scored: Program, options: list[str], code: int, message: str
) -> None:
    ran = scored("scorecards", "override", "--annotator", "Ada", "--reason", "r", *options)

    assert ran.code == code
    assert message in " ".join(ran.err.replace("│", " ").split())
    assert scored("scorecards", "list", "overrides").out == "There are no overrides yet.\n"


def test_an_override_names_the_criterion_that_was_wrong(scored: Program) -> None:
    by = ("--annotator", "Ada", "--reason", "slow", "--criterion", "response_time")
    assert scored("scorecards", "override", "a", "--score", "20", *by).code == 0
    rows = b"session,score,annotator,reason,criterion\nb,20,Ada,x,tool_count\nb,20,Ada,x,\n"
    assert scored("scorecards", "override", "--import", "-", stdin=rows).out.startswith(
        "2 overrides stored"
    )

    assert [row[9] for row in scored("scorecards", "list", "overrides").table()] == [
        *("response_time", "tool_count", "-"),
    ]
    scored("publish")
    with duckdb.connect(str(scored.folder / "data" / "analytics.duckdb"), read_only=True) as base:
        found = base.sql("select criterion_id from overrides order by override_id").fetchall()
    assert found == [("response_time",), ("tool_count",), (None,)]


def test_an_override_is_stale_when_its_session_has_changed(scored: Program) -> None:
    scored("scorecards", "override", "a", "--score", "20", "--annotator", "Ada", "--reason", "r")
    assert (
        scored("scorecards", "list", "overrides", "--stale").out
        == "There are no stale overrides.\n"
    )
    scored.land("more.jsonl", work("a", 60, "simple"))
    scored("ingest")
    scored("build")

    stale = scored("scorecards", "list", "overrides", "--stale").table()
    assert stale[0][:2] == ["a#baseline-1", "20.0"]
    now = scored("scorecards", "list", "--session", "a", "--profile", "best").out
    assert "card (override is stale)" in now
    asked = ("--session", "a", "--profile", "efficiency-simple", "--history")
    history = scored("scorecards", "list", *asked, "--format", "json").out
    assert len(json.loads(history)["items"]) == 2


def test_a_file_of_overrides_is_imported_or_its_bad_rows_are_reported(scored: Program) -> None:
    good = b"\xef\xbb\xbfsession,score,annotator,reason\r\na,20,Ada,x\r\n"
    assert scored("scorecards", "override", "--import", "-", stdin=good).out.startswith(
        "1 override stored, 0 "
    )
    bad = scored("scorecards", "override", "--import", "-", stdin=good + b"zz,1,Ada,x\r\n")

    assert bad.code == 1
    assert "line 3: There is no session zz" in bad.err
    assert "nothing was stored" in bad.err
    skipped = scored(
        "scorecards", "override", "--import", "-", "--skip-bad", stdin=good + b"zz,1,Ada,x\r\n"
    )
    assert skipped.out == "0 overrides stored, 1 already known, 1 bad row\n"
    latin = scored("scorecards", "override", "--import", "-", stdin=b"session\xe9")
    assert (latin.code, "is not UTF-8" in latin.err) == (1, True)


def test_the_score_that_counts_is_corrected_while_a_better_match_has_not_scored(
    program: Program,
) -> None:
    """There is no judge: general-performance counts until incident-llm has scored the session."""
    build_by(program, work("d", 0, "incident"))
    by = ("--annotator", "Ada", "--reason", "seen")
    assert "general-performance" in program("scorecards", "override", "d", *by, "--confirm").out
    corrected = program("scorecards", "override", "d", *by, "--score", "12.5")
    assert corrected.code == 0
    assert "It counts immediately, until incident-llm scores the session." in corrected.out

    def shown() -> list[str]:
        row = program(*best).table()[0]
        return [*row[:2], row[6], row[4]]

    expected = ["d#baseline-1", "12.5", "Ada", "general-performance"]
    best = ("scorecards", "list", "--session", "d", "--profile", "best")
    assert shown() == expected
    program("build")
    assert shown() == expected
    judge = ("--profile", "incident-llm")
    refused = program("scorecards", "override", "d", *by, "--score", "1", *judge)
    assert refused.code == 1
    assert "incident-llm has not scored d. Its score is that of general-performance" in refused.err


def test_calibration_needs_thirty_overrides(program: Program) -> None:
    program("ingest")
    assert "see the page /reviews" in program("scorecards", "calibration").out
    texts = [work(f"s{n}", n * 60, "simple", user__id=f"u{n % 6}") for n in range(5)]
    program.land("logs.jsonl", b"".join(texts))
    program("ingest")
    program("build")
    by = ("--annotator", "Ada", "--reason", "too generous")
    for number in range(4):
        score = ("--score", str(50 + number), "--criterion", "response_time")
        program("scorecards", "override", f"s{number}", *score, *by)
    program("scorecards", "override", "s4", "--score", "54", *by)
    shown = program("scorecards", "calibration")
    assert "not yet: 5 of 30" in shown.out
    leaning = [line.split() for line in shown.out.splitlines() if line.endswith("within")]
    assert leaning == [
        ["efficiency-simple", "v2", "-", "5", "5", "0", "within"],
        ["efficiency-simple", "v2", "response_time", "4", "4", "0", "within"],
    ]


def test_calibration_says_when_to_recalibrate(program: Program) -> None:
    program.land("logs.jsonl", b"".join(work(f"s{n}", n * 60, "simple") for n in range(9)))
    program("ingest")
    program("build")
    by = ("--annotator", "Ada", "--reason", "too generous")
    for number in range(9):
        shown = program("scorecards", "calibration")
        assert shown.err == ""
        program("scorecards", "override", f"s{number}", "--score", "10", *by)
    shown = program("scorecards", "calibration")
    assert shown.err == (
        "recalibrate efficiency-simple version 2: 9 of 9 corrections (by 1 person) made the score "
        "lower, which is beyond chance. See docs/scorecards.md.\n"
    )


def test_an_empty_list_says_so_of_the_chosen_sessions(scored: Program) -> None:
    by = ("--annotator", "Ada", "--reason", "r")
    scored("scorecards", "override", "a", "--score", "10", *by)
    other = ("--date", "2020-01-01")
    listed = scored("scorecards", "list", "overrides", *other).out
    assert listed == "There are no overrides of these sessions.\n"
    measured = scored("scorecards", "calibration", *other).out
    assert measured.startswith("No score of these sessions is overridden or confirmed yet")

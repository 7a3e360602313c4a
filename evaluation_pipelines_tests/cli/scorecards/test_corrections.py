"""Commands of people's scores: override, confirm, import, calibration."""

import duckdb
import pytest

from evaluation_pipelines_tests.cli.scorecards.labeled_work import work
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world.built_before import build_by


def test_an_override_is_in_the_query_the_lake_and_the_database(scored: Program) -> None:
    by = ("--annotator", "Ada", "--reason", "wrong", "--criterion", "tool_count")
    stored = scored("scorecards", "override", "a", "--score", "20", *by)
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
        overrides = base.sql(
            "select override_100, automatic_100, state, criterion_id from overrides"
        ).fetchall()
    assert effective == [(20.0, "override")]
    assert cards == [("Ada", pytest.approx(100), 20.0)]
    assert overrides == [(20.0, pytest.approx(100), "live", "tool_count")]
    assert scored("scorecards", "list", "overrides").table()[0][9] == "tool_count"
    measured = scored("scorecards", "calibration").out.splitlines()
    leaning = [line.split() for line in measured if line.endswith("within")]
    assert leaning == [
        ["efficiency-simple", "v2", criterion, "1", "1", "0", "within"]
        for criterion in ("-", "tool_count")
    ]


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
        (["a", "--confirm", "--criterion", "tool_count"], 1, "omit the criterion"),
    ],
)
def test_an_invalid_override_is_refused(
    scored: Program, options: list[str], code: int, message: str
) -> None:
    ran = scored("scorecards", "override", "--annotator", "Ada", "--reason", "r", *options)

    assert ran.code == code
    assert message in " ".join(ran.err.replace("│", " ").split())
    assert scored("scorecards", "list", "overrides").out == "There are no overrides yet.\n"


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

"""``scorecards``: queries, overrides, calibration and events."""

import json
import shutil
import subprocess
from io import BytesIO, StringIO
from pathlib import Path

import duckdb
import polars as pl
import pytest

from evaluation_pipelines.build.build import Build
from evaluation_pipelines.profiles.profile_files import SHIPPED
from evaluation_pipelines.schemas import SCORECARDS
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines_tests.otlp_builders import DAY_S, claude, line
from evaluation_pipelines_tests.program import SCRIPT, Program
from evaluation_pipelines_tests.workplace import open_workplace

NOON = "2026-06-01T12:00"


def work(name: str, second: float, label: str, model: str = "model-a") -> bytes:
    named = {"session__id": name, "classification__label": label}
    return line(
        claude("user_prompt", second, **named),
        claude("tool_result", second + 5, tool_name="Bash", success="true", **named),
        claude("api_request", second + 6, model=model, input_tokens=100, output_tokens=20, **named),
    )


@pytest.fixture(scope="module")
def scored_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of two simple sessions of June 1 and one research session of June 2."""
    sessions = (work("a", 0, "simple"), work("b", 600, "simple", "model-b"))
    with open_workplace(tmp_path_factory.mktemp("scored") / "data") as workplace:
        workplace.land("logs.jsonl", b"".join(sessions) + work("c", DAY_S, "research"))
        Ingest(workplace.stores).run()
        build = Build(workplace.stores)
        build.run(build.pending_dates())
    return workplace.settings.data_dir


@pytest.fixture
def scored(program: Program, scored_data: Path) -> Program:
    """The program with a copy of this data, which is faster than building it again."""
    shutil.copytree(scored_data, program.folder / "data")
    return program


def found(program: Program, *options: str) -> list[tuple[str, str]]:
    """Return session and profile of the cards that a query returns."""
    ran = program("scorecards", "query", "--format", "json", *options)
    assert ran.code == 0, ran.err
    return [(each["session_id"], each["profile_id"]) for each in json.loads(ran.out)]


BOTH = ("efficiency-simple", "general-performance")


@pytest.mark.parametrize(
    ("options", "sessions"),
    [
        (["--session", "a"], "aa"),
        (["--session", "a#baseline-1"], "aa"),
        (["--agent", "claude-code"], "aabbc"),
        (["--session", "c", "--model", "model-b"], ""),
        (["--from", "2026-06-01"], "aabbc"),
        (["--from", "2026-06-02"], "c"),
        (["--to", "2026-06-02"], "aabb"),
        # Half-open: what started at noon is in from noon on, and not up to noon.
        (["--from", NOON, "--to", "2026-06-01T12:10"], "aa"),
        (["--to", NOON], ""),
        (["--from", "2026-06-01T14:00+02:00", "--to", "2026-06-01T12:10Z"], "aa"),
        (["--agent", "claude-code", "--label", "research"], "c"),
        (["--agent", "claude-code", "--model", "model-b"], "bb"),
        (["--agent", "claude-code", "--profile", "best"], "abc"),
        (["--agent", "claude-code", "--profile", "general-performance"], "abc"),
        (["--agent", "claude-code", "--limit", "1"], "c"),
    ],
)
def test_every_filter(scored: Program, options: list[str], sessions: str) -> None:
    assert "".join(name for name, _ in found(scored, *options)) == sessions


@pytest.mark.parametrize("options", [[], ["--label", "simple"], ["--model", "m", "--limit", "3"]])
def test_a_query_needs_a_session_an_agent_or_a_time(scored: Program, options: list[str]) -> None:
    ran = scored("scorecards", "query", *options)

    assert ran.code == 1
    assert "Name a session, an agent or a time range" in ran.err


def test_the_table_shows_score_source_and_profile(scored: Program) -> None:
    ran = scored("scorecards", "query", "--session", "a")
    first = ran.table()[0]

    # 6 s a prompt: 100 x 40; 20 tokens out for 100 in: 100 x 30; one call: 90 x 30. Of 100: 97.
    assert first[:6] == ["a#baseline-1", "97.0", "card", "efficiency-simple", "v1", "97.0"]
    assert ran.err == ""


def test_all_file_formats_have_the_same_cards(scored: Program, tmp_path: Path) -> None:
    def ask(form: str) -> Path:
        path = tmp_path / form
        options = ("--agent", "claude-code", "--format", form, "--output", str(path))
        assert scored("scorecards", "query", *options).code == 0
        return path

    parquet = pl.read_parquet(ask("parquet"))
    assert parquet.schema == SCORECARDS.schema
    from_csv = pl.read_csv(ask("csv"))
    from_json = json.loads(ask("json").read_text())
    ids = parquet["card_id"].to_list()
    assert from_csv["card_id"].to_list() == [each["card_id"] for each in from_json] == ids
    assert json.loads(from_csv["criteria_scores"][0]) == from_json[0]["criteria_scores"]
    assert from_csv.columns[-5:] == [
        "override_score",
        "override_annotator",
        "override_reason",
        "override_at",
        "override_stale",
    ]


def test_csv_escapes_formulas(scored: Program) -> None:
    scored(
        *("scorecards", "override", "a", "--score", "1", "--annotator", "-Ada"),
        *("--reason", "=HYPERLINK(0)"),
    )
    ask = ("scorecards", "query", "--session", "a", "--profile", "best", "--format")
    (row,) = pl.read_csv(StringIO(scored(*ask, "csv").out)).rows(named=True)
    (exact,) = json.loads(scored(*ask, "json").out)

    assert (row["override_reason"], row["override_annotator"]) == ("'=HYPERLINK(0)", "'-Ada")
    assert exact["human_override"]["reason"] == "=HYPERLINK(0)"


def test_csv_can_be_piped(scored: Program) -> None:
    ran = scored.process("scorecards", "query", "--session", "a", "--format", "csv")

    assert pl.read_csv(StringIO(ran.out)).height == 2


def test_parquet_can_be_piped(scored: Program) -> None:
    command = (str(SCRIPT), "scorecards", "query", "--session", "a", "--format", "parquet")
    piped = subprocess.run(command, cwd=scored.folder, capture_output=True, check=True)

    assert pl.read_parquet(BytesIO(piped.stdout)).height == 2


def test_an_override_is_in_the_query_the_lake_and_the_database(scored: Program) -> None:
    stored = scored(
        "scorecards", "override", "a", "--score", "20", "--annotator", "Ada", "--reason", "wrong"
    )
    assert stored.out.startswith(
        "a#baseline-1: now 20 (automatic: 97.0; efficiency-simple, 0 to 100)"
    )

    current = scored("scorecards", "query", "--session", "a", "--profile", "best").table()
    assert current[0][1:6] == ["20.0", "Ada", "efficiency-simple", "v1", "97.0"]
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
    assert cards == [("Ada", pytest.approx(97), 20.0)]
    assert overrides == [(20.0, pytest.approx(97), "live")]


def test_an_override_counts_only_while_its_profile_is_the_best_match(
    scored: Program,
) -> None:
    """An override of the efficiency score does not apply to general performance."""
    scored("scorecards", "override", "a", "--score", "20", "--annotator", "Ada", "--reason", "r")
    shipped = (SHIPPED / "efficiency-simple.yaml").read_text()
    file = scored.folder / "mine.yaml"

    def switch(state: str) -> tuple[list[str], list[str]]:
        file.write_text(f"{shipped}\nenabled: {state}\n")
        assert scored("judges", "set", str(file)).code == 0
        scored("build", "--date", "2026-06-01")
        best = scored("scorecards", "query", "--session", "a", "--profile", "best").table()[0]
        return best[1:4], scored("scorecards", "overrides").table()[0][3:4]

    (_, source, profile), state = switch("false")
    assert (source, profile, state) == ("card", "general-performance", ["card_only"])
    assert switch("true") == (["20.0", "Ada", "efficiency-simple"], ["live"])


def test_an_override_of_a_named_profile_corrects_that_card_only(scored: Program) -> None:
    stored = scored(
        *("scorecards", "override", "a", "--score", "20", "--annotator", "Ada"),
        *("--reason", "wrong", "--profile", "general-performance"),
    )
    assert "for this card, but not for the session" in stored.out
    assert scored("scorecards", "overrides").table()[0][3] == "card_only"
    rows = {row[3]: row[1] for row in scored("scorecards", "query", "--session", "a").table()}

    assert rows["efficiency-simple"] == "97.0"
    assert rows["general-performance"] != "97.0"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ["a", "--score", "101"],
            1,
            "score 101 is not on the scale of efficiency-simple, 0 to 100",
        ),
        (["nope", "--score", "1"], 1, "There is no session nope"),
        (["a"], 2, "give either --score or --confirm"),
        (["a", "--score", "1", "--confirm"], 2, "give either --score or --confirm"),
        (["a", "--score", "1", "--reason", " "], 1, "reason is empty"),
        (["a", "--score", "1", "--profile", "x"], 1, "There is no profile x"),
    ],
)
def test_an_invalid_override_is_refused(
    scored: Program, options: list[str], code: int, message: str
) -> None:
    ran = scored("scorecards", "override", "--annotator", "Ada", "--reason", "r", *options)

    assert ran.code == code
    assert message in " ".join(ran.err.replace("│", " ").split())
    assert scored("scorecards", "overrides").out == "There are no overrides yet.\n"


def test_a_confirmation(scored: Program) -> None:
    options = ("a", "--confirm", "--annotator", "Ada", "--reason", "fits")
    assert (
        "a#baseline-1: confirmed (automatic: 97.0" in scored("scorecards", "override", *options).out
    )
    assert scored("scorecards", "overrides").table()[0][:4] == [
        *("a#baseline-1", "97.0", "97.0", "live"),
    ]


def test_overrides_are_sanitized(scored: Program) -> None:
    scored(
        *("scorecards", "override", "a", "--score", "1"),
        *("--annotator", "A\x1b[31m", "--reason", "x\ny"),
    )
    for command in (["overrides"], ["query", "--session", "a"]):
        out = scored("scorecards", *command).out
        assert "\x1b" not in out
    assert "x\N{REPLACEMENT CHARACTER}y" in scored("scorecards", "overrides").out


def test_an_override_is_stale_when_its_session_has_changed(scored: Program) -> None:
    scored("scorecards", "override", "a", "--score", "20", "--annotator", "Ada", "--reason", "r")
    assert scored("scorecards", "overrides", "--stale").out == "There are no stale overrides.\n"
    scored.land("more.jsonl", work("a", 60, "simple"))
    scored("ingest")
    scored("build")

    stale = scored("scorecards", "overrides", "--stale").table()
    assert stale[0][:2] == ["a#baseline-1", "20.0"]
    now = scored("scorecards", "query", "--session", "a", "--profile", "best").out
    assert "card (override is stale)" in now
    history = found(scored, "--session", "a", "--profile", "efficiency-simple", "--history")
    assert len(history) == 2


def test_a_file_of_overrides_is_imported_or_its_bad_rows_are_reported(scored: Program) -> None:
    good = b"\xef\xbb\xbfsession,score,annotator,reason\r\na,20,Ada,x\r\n"
    assert scored("scorecards", "import", "-", stdin=good).out.startswith("1 override stored, 0 ")
    bad = scored("scorecards", "import", "-", stdin=good + b"zz,1,Ada,x\r\n")

    assert bad.code == 1
    assert "line 3: There is no session zz" in bad.err
    assert "nothing was stored" in bad.err
    skipped = scored("scorecards", "import", "-", "--skip-bad", stdin=good + b"zz,1,Ada,x\r\n")
    assert skipped.out == "0 overrides stored, 1 already known, 1 bad row\n"
    latin = scored("scorecards", "import", "-", stdin=b"session\xe9")
    assert (latin.code, "is not UTF-8" in latin.err) == (1, True)


def test_events_can_be_followed_from_a_position(scored: Program) -> None:
    lines = [json.loads(each) for each in scored("scorecards", "events").out.splitlines()]
    assert [(each["session_id"], each["event"]) for each in lines] == [
        (name, "evaluation.model_feedback") for name in "abc"
    ]
    scored("scorecards", "override", "b", "--score", "1", "--annotator", "Ada", "--reason", "r")
    scored("build")

    after = str(lines[-1]["position"])
    newer = [
        json.loads(each)
        for each in scored("scorecards", "events", "--after", after).out.splitlines()
    ]
    assert [(each["session_id"], each["event"], each["effective_100"]) for each in newer] == [
        ("b", "evaluation.model_feedback", 1.0),
        ("b", "evaluation.quality_risk", 1.0),
    ]


def test_a_session_without_a_card_has_a_reason(program: Program) -> None:
    program("judges", "disable", "general-performance")
    program.land("logs.jsonl", work("d", 0, "incident"))
    program("ingest")
    program("build")
    ran = program("scorecards", "query", "--session", "d")

    assert "no scorecard of the best match: d#baseline-1: no judge has scored this" in ran.err
    assert "last build" not in ran.err
    program("judges", "enable", "general-performance")
    program("judges", "disable", "general-performance")
    outdated = program("scorecards", "query", "--session", "d").err
    assert "This is the state of the last build. 2026-06-01 has changed since" in outdated
    program("build", "--date", "2026-06-01", "--allow-fallback")
    shown = program("scorecards", "query", "--session", "d", "--profile", "best").table()
    assert shown[0][1:4] == ["50.0", "placeholder", "incident-llm"]


def test_the_effective_score_without_a_card_has_the_newest_override(program: Program) -> None:
    program("judges", "disable", "general-performance")
    program.land("logs.jsonl", work("d", 0, "incident"))
    program("ingest")
    program("build")
    row = program("scorecards", "query", "--session", "d", "--profile", "best").table()[0]
    assert (row[0], *row[2:4]) == ("d#baseline-1", "composite", "incident-llm")

    verdict = ("--annotator", "Ada", "--reason", "seen", "--score", "12.5")
    program("scorecards", "override", "d", *verdict)
    row = program("scorecards", "query", "--session", "d", "--profile", "incident-llm").table()[0]
    assert row[:4] == ["d#baseline-1", "12.5", "Ada", "incident-llm"]


def test_a_time_range_that_ends_before_it_begins_is_an_error(program: Program) -> None:
    program.land("logs.jsonl", work("d", 0, "incident"))
    program("ingest")
    program("build")
    ran = program("scorecards", "query", "--from", "2026-06-02", "--to", "2026-06-01")
    assert (ran.code, ran.out) == (1, "")
    assert "from 2026-06-02 00:00 to 2026-06-01 00:00 is empty" in ran.err


def test_a_score_that_stands_in_for_the_judge_can_be_confirmed_and_corrected(
    program: Program,
) -> None:
    """Of the best match there is no card: the next profile counts until there is one."""
    program.land("logs.jsonl", work("d", 0, "incident"))
    program("ingest")
    program("build")
    by = ("--annotator", "Ada", "--reason", "seen")
    confirmed = program("scorecards", "override", "d", *by, "--confirm")
    assert confirmed.code == 0
    assert "general-performance" in confirmed.out
    row = program("scorecards", "query", "--session", "d", "--profile", "best").table()[0]
    assert (row[0], *row[2:4]) == ("d#baseline-1", "Ada", "general-performance")
    # Without --confirm it is for the best match by labels, and stays when that gets its card.
    corrected = program("scorecards", "override", "d", *by, "--score", "12.5")
    assert "incident-llm" in corrected.out
    program("build")
    listed = json.loads(program("sessions", "--format", "json").out)
    assert len(listed) == 1
    row = program("scorecards", "query", "--session", "d", "--profile", "incident-llm").table()[0]
    assert row[:4] == ["d#baseline-1", "12.5", "Ada", "incident-llm"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--session", "nosuch"), "There is no session nosuch among the 1 of the lake"),
        (("--agent", "nosuch"), "No session has the agent_id nosuch. Known: 'claude-code'"),
        (("--session", "d", "--label", "incidnt"), "label incidnt. Known: 'incident'"),
        (("--session", "d", "--model", "nosuch"), "No session has the model nosuch"),
        (
            ("--session", "d", "--profile", "nosuch"),
            "There is no profile nosuch; registered profiles",
        ),
    ],
)
def test_a_misspelled_name_is_an_error(
    program: Program, options: tuple[str, ...], message: str
) -> None:
    program.land("logs.jsonl", work("d", 0, "incident"))
    program("ingest")
    program("build")

    ran = program("scorecards", "query", *options)

    assert ran.code == 1
    assert message in ran.err


def test_calibration_needs_five_overrides_and_may_call_for_recalibration(program: Program) -> None:
    program("ingest")
    assert "see scorecards audit" in program("scorecards", "calibration").out
    program.land("logs.jsonl", b"".join(work(f"s{n}", n * 60, "simple") for n in range(5)))
    program("ingest")
    program("build")
    for number in range(5):
        program(
            *("scorecards", "override", f"s{number}", "--score", str(50 + number)),
            *("--annotator", "Ada", "--reason", "too generous"),
        )
        shown = program("scorecards", "calibration")
        assert ("recalibrate efficiency-simple version 1" in shown.err) is (number == 4)
        if number < 4:
            assert f"not yet: {number + 1} of 5" in shown.out
    # 97 - 50 ... 97 - 54: 45 on average; standard deviation 1.58, half width 1.96.
    assert "+45.0 (+43.0 to +47.0)" in shown.out
    assert "the last 5 corrections all made the score lower" in shown.err


@pytest.mark.parametrize("command", ["overrides", "calibration", "events", "query"])
def test_reading_writes_nothing(program: Program, command: str) -> None:
    options = ("--agent", "x") if command == "query" else ()
    ran = program("scorecards", command, *options)

    assert (ran.code, "evaluation-pipelines ingest" in ran.err) == (1, True)
    assert list(program.folder.iterdir()) == []

"""``demo``: all steps with their results, and never with other telemetry."""

import json
import re

import duckdb
import polars as pl
import pytest

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import REGRESSION
from evaluation_pipelines.scorecards.blind_reviews import BlindReviews
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import session


def test_demo_shows_its_results_and_a_second_run_shows_the_same_without_reading(
    program: Program,
) -> None:
    first = program("demo")
    program.set("EVAL_DATA_DIR", "data")
    second = program("demo")
    assert (first.code, second.code, second.err) == (0, 0, "")
    assert "lines or records could not be read and went to quarantine" in first.err
    assert "This is expected: " in first.out
    assert "This is expected: " not in second.out
    assert "ingest: 0 lines (0 bytes) of 0 files, 0 events on 0 dates\n" in second.out
    assert "build: nothing new\n" in second.out
    sessions = "\nLatest sessions of each agent program"
    # Every printed command sets the data folder, or else it would use other data.
    assert "\n  terminal    EVAL_DATA_DIR=data evaluation-pipelines sessions " in second.out
    shown = second.out.replace("EVAL_DATA_DIR=data ", "")
    assert first.out.partition(sessions)[2] == shown.partition(sessions)[2] != ""
    assert re.search(r"^Firefighter +\d+ +\d\.\d +(keep|review) ", first.out, re.MULTILINE)
    # Five people, one of them by two e-mails, one by two hashes and a user id, and whoever was at
    # the machine of the genuine samples: 2 + 3 + 1 + 1 + 1 + 1 ids of 6 people.
    assert re.search(r"^platform +6 +9 +\d+ +engine, toolbox *$", first.out, re.MULTILINE)
    teams = first.out.partition("\nTeams: ")[2].partition("─\n")[2].partition("\nwho is who")[0]
    cells = (re.split(r" {2,}", line.strip()) for line in teams.splitlines())
    found = {name: number for name, _, _, number, *_ in cells}
    always = ("--date", "2000-01-01..2099-01-01", "--format", "json")
    by_team = program("sessions", "--by", "team", *always).items()
    assert found == {row["name"] or "no team": f"{row['sessions']}" for row in by_team}
    assert (program.folder / "data/analytics.duckdb").is_symlink()
    dates = [item["session_date"] for item in program("sessions", "--format", "json").items()]
    assert load_settings().start_date.isoformat() == min(dates)
    assert "Best session with a full score, " in first.out
    assert " First remove the demo data: rm -r data " in first.out
    table = program("publish", "--files", "agent_events", "--date", "2026-11-21").out.split()
    # The genuine sessions name no organization, the made-up team has two.
    is_genuine = (pl.col("source_cli") == "claude_code") & (pl.col("organization_id") == "default")
    assert pl.read_parquet(table).filter(is_genuine).height == 269

    shows_the_scripted_judge(program, first.out)
    shows_an_audit_in_progress(program, first.out)
    shows_a_judge_change(program, first.out)
    shows_a_model_that_got_worse(program, first.out)
    assert "reviews: " not in second.out

    # Agents by rating: one whose window is full, and some that are not calibrated yet.
    board = first.out.partition("\nAgents, 0 to 1000 by their last 500 evaluations\n")[2]
    assert re.search(r"^release-gate +orchard +\d{3} .* mature *$", board, re.MULTILINE)
    assert re.search(r"^Scout +orchard +(\d+/50|\d{3}) ", board, re.MULTILINE)
    assert "  Expected: two signal lines are invalid on purpose.\n" in first.out
    assert "expected" not in second.out

    # Two of each program in each organization: Claude Code in three, three others in one.
    newest = first.out.partition(sessions)[2].partition("─\n")[2].partition(" others: ")[0]
    agents = re.findall(r" (claude_code|codex|gemini_cli|qwen_code) ", newest)
    assert agents == ["claude_code"] * 6 + ["codex"] * 2 + ["gemini_cli"] * 2 + ["qwen_code"] * 2


def shows_the_scripted_judge(program: Program, printed: str) -> None:
    """Check that whatever shows a score by the demo's judge names it."""
    counted = (
        r"^judge: 4\d\d of 4\d\d sessions judged .* \$0\.0000; "
        r"(4\d\d) judged, (\d+) counted\. (\d+) not counted, labeled simple: "
    )
    numbers = re.search(counted, printed, re.MULTILINE)
    assert numbers is not None
    assert int(numbers[1]) == int(numbers[2]) + int(numbers[3])
    assert (
        "demo-script is a script that counts tool calls, not a model. Nothing was sent." in printed
    )
    assert re.search(
        r"^Judged by demo-script, .* \d+ green, \d+ yellow, \d+ red, \d failed, [1-9] flagged: ",
        printed,
        re.MULTILINE,
    )
    listed = json.loads(program("judge", "list", "--limit", "9999", "--format", "json").out)
    judged = {item["session_key"] for item in listed["items"] if item["total_score"] is not None}
    assert {item["judge_model"] for item in listed["items"]} == {"demo-script"}
    assert listed["spent_today_usd"] == 0
    key = min(judged)
    commands = (
        ("judge", "list"),
        ("show", "--judge", key),
        ("judge", "list", "missing-tools"),
        ("sessions",),
        ("sessions", "--format", "csv"),
        ("scorecards", "list", "--agent", "Codesmith"),
        ("scorecards", "list", "--agent", "Codesmith", "--format", "csv"),
        ("compare",),
        ("compare", "--format", "csv"),
        ("compare", "--format", "json"),
    )
    for command in commands:
        assert "demo-script" in program(*command).out, command
    for name in ("model_comparison.html", "model_comparison.md"):
        report = (program.folder / "data" / "reports" / name).read_text("utf-8")
        assert "demo-script" in report.replace("\\-", "-"), name
    with duckdb.connect(str(program.folder / "data/analytics.duckdb"), read_only=True) as analysts:
        unlabeled = """
            select count(*) from session_evaluations
            where (judge_total is not null and judge_total_model is distinct from 'demo-script')
               or (profile_id = 'code-hybrid' and automatic_source = 'scorecard'
                   and judge_model is distinct from 'demo-script')
        """
        assert analysts.sql(unlabeled).fetchall() == [(0,)]
        assert analysts.sql("select count(*) > 0 from missing_tools").fetchall() == [(True,)]


def shows_an_audit_in_progress(program: Program, printed: str) -> None:
    """Check that two of seven nights with five sessions each are answered, and pages show it."""
    assert "\nreviews: 10 blind reviews, 3 overrides " in printed
    assert " (one now outdated), 25 sessions await your review\n" in printed
    listed = program("scorecards", "list", "overrides").table()
    assert sorted({(row[5], row[6]) for row in listed}) == [
        ("audit", "demo-reviewer"),
        ("person", "demo-lead"),
    ]
    with open_workplace(program.folder / "data") as workplace:
        client = Service(workplace).client()
        reviews = client.get("/reviews").text
        assert "Awaiting review: 25<" in reviews
        assert "Outdated human scores: 1<" in reviews
        overview = client.get("/").text
        assert "25 sessions to review blind" in overview
        assert re.search(r">\d+ sessions scored below their threshold<", overview)
        for page in ("/", "/sessions", "/agents", "/trends", "/tools", "/operations/books"):
            text = client.get(page).text
            assert not re.search(r"No sessions yet|>No unread|>No matching|No day is", text)
        awaited = [key for _, key in BlindReviews(workplace.stores).waiting()]
    report = (program.folder / "data/reports/model_comparison.html").read_text("utf-8")
    compared = printed.partition("\nModel comparison")[2]
    assert "Regression: dogwood-3" in compared
    for text in (compared, program("compare").out, report):
        assert [key for key in awaited if key in text] == []


def shows_a_judge_change(program: Program, printed: str) -> None:
    """Check that the change is measured, and that the script's tenth less is found."""
    (change,) = program("judge", "changes", "--format", "json").items()
    assert change["former_rubric"] == "incident-investigation"
    assert (change["state"], change["trend"]) == ("measured", "bridged")
    # A tenth of all points is missing, but for rounding.
    assert change["judges_part"] == pytest.approx(0.1 * change["new_anchor_score"], abs=0.5)
    what = f"\njudge change: profile default: another rubric since {change['changed_on']}."
    assert f"{what} Mean score " in printed


def shows_a_model_that_got_worse(program: Program, printed: str) -> None:
    """Check that the watch warns of the one model that did, wherever it is told, and once."""
    told = r"dogwood-3 \(effort medium\) \(label upgrade\): [\d.]+ points lower since "
    assert printed.count("Regression: ") == len(re.findall(f"\nRegression: {told}", printed)) == 1
    with duckdb.connect(str(program.folder / "data/analytics.duckdb"), read_only=True) as analysts:
        alerts = analysts.sql("""
            select model, before_runs, before_days, change < -20
            from model_regressions where state = 'alert'
        """).fetchall()
    # Three people on each of 14 days, the first of them 64 - 7 days before the last week.
    assert alerts == [("dogwood-3", 3 * 14, 57, True)]
    for name in ("model_comparison.html", "model_comparison.md"):
        report = (program.folder / "data" / "reports" / name).read_text("utf-8")
        assert re.search(told, report.replace("\\", "")), name
    with open_workplace(program.folder / "data") as workplace:
        raised = [row.alert for row in AlertStore(workplace.stores.ledger).all()]
        title = "dogwood-3 (effort medium) got worse (label upgrade)"
        assert [alert.title for alert in raised if alert.kind == REGRESSION] == [title]
        overview = Service(workplace).client().get("/").text
        assert f'<a href="/models?label=upgrade">{title}</a>' in overview


@pytest.mark.parametrize("is_first", [True, False])
def test_demo_refuses_a_folder_with_other_telemetry(program: Program, *, is_first: bool) -> None:
    program.land("mine.jsonl", session("a"))
    if not is_first:
        program.land("demo/agents.jsonl", session("b"))
    before = sorted(program.folder.rglob("*"))
    ran = program("demo")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "error: data/landing has other telemetry (mine.jsonl), and the demo would mix generated "
        "sessions and scores with it. Use another folder for the demo: "
        "EVAL_DATA_DIR=data-demo make demo\n"
    )
    assert sorted(program.folder.rglob("*")) == before

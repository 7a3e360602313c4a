"""``compare``: answers, tables, reports and errors."""

import csv
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import session
from evaluation_pipelines_tests.world.runs import scores
from evaluation_pipelines_tests.world.stored import evaluation, put_sessions

SPAN = ("--from", "2026-11-01", "--to", "2026-11-08")


@pytest.fixture
def compared(program: Program) -> Program:
    """A good and a bad model with 40 runs each, and three runs of another label."""
    with open_stores(Settings(data_dir=program.folder / "data")) as stores:
        rows = [
            evaluation(100 * side + at, score, model=f"model-{'ab'[side]}", provider=None)
            for side, mean in enumerate((85.0, 60.0))
            for at, score in enumerate(scores(mean, 40, 5, side + 1))
        ]
        rows += [
            evaluation(900 + at, 50.0, classification_label="\x1b[31mred", model="model-a")
            for at in range(3)
        ]
        put_sessions(stores.lake, rows)
    return program


def test_the_answers_come_first_then_the_tables(compared: Program) -> None:
    ran = compared("compare", *SPAN)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].startswith("Sessions started 2026-11-01 to 2026-11-07 (UTC).")
    assert any(re.match(r"Label +Quality +Value +Cost per session +Conf", line) for line in lines)
    (label,) = (line for line in lines if line.startswith("code  "))
    assert re.match(r"code +model-a \[conclusive\] ", label)
    assert re.search(r"\[31mred +too few sessions \(one +", ran.out)
    assert "\n80 of 83 sessions are ranked. Not ranked: 3 (fewer than 30 comparable " in ran.out
    start = lines.index("code (profile p v1)")
    assert lines[start + 1].startswith("  Quality: model-a. model-b scores ")
    assert [line.partition(": ")[0].strip() for line in lines[start + 2 : start + 6]] == [
        "Value",
        "Cost per session",
        "Confidence",
        "Coverage",
    ]
    assert "code: profile p v1\nModel " in ran.out
    assert "model-a better" in ran.out
    assert "\nSessions not ranked\n" in ran.out
    assert "\x1b" not in ran.out


def test_json_has_all_tables_and_csv_has_the_models(compared: Program) -> None:
    tables = json.loads(compared("compare", *SPAN, "--format", "json", "--label", "code").out)
    assert set(tables) == {"model_comparison", "model_comparison_pairs", "model_regressions"}
    assert [row["verdict"] for row in tables["model_comparison_pairs"]] == ["A better"]
    assert tables["model_comparison"][0]["since"] == "2026-11-01T00:00:00+00:00"

    text = compared("compare", *SPAN, "--format", "csv", "--label", "code").out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["model"], row["rank"]) for row in rows] == [("model-a", "1"), ("model-b", "2")]


def test_the_report_goes_to_the_terminal_or_to_a_file(compared: Program) -> None:
    assert compared("compare", *SPAN, "--format", "html").out.startswith("<!doctype html>")
    assert compared("compare", *SPAN, "--format", "markdown").out.startswith("# Model comparison")
    ran = compared("compare", *SPAN, "--format", "html", "--output", "report.html")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("report.html: Sessions started 2026-11-01")
    assert Path("report.html").read_text("utf-8").endswith("</html>\n")
    # A table is written to a file as CSV.
    compared("compare", *SPAN, "--output", "models.csv")
    assert Path("models.csv").read_text("utf-8").startswith("classification_label,")
    assert sorted(path.name for path in compared.folder.iterdir()) == [
        "data",
        "models.csv",
        "report.html",
    ]


def test_the_default_range_is_28_days(compared: Program) -> None:
    ran = compared("compare", "--to", "2026-11-08")
    assert "Sessions started 2026-10-11 to 2026-11-07" in ran.out
    ran = compared("compare", "--as-of", "2026-11-08T12:00")
    assert "2026-10-11 to 2026-11-07 (UTC), scores as of 2026-11-08 12:00" in ran.out
    # There are no cards, so no session had a score.
    assert "no score" in ran.out


def test_an_exported_list_of_sessions_is_compared_as_it_is(program: Program) -> None:
    lines = [
        session(f"{model}-{n}", n, request={"model": model, "request_id": f"{model}{n}"})
        for model in ("opus", "sonnet")
        for n in range(30)
    ]
    program.land("logs.jsonl", b"".join(lines))
    for command in ("ingest", "build"):
        program(command)
    Path("list.csv").write_text(program("sessions", "--limit", "100", "--format", "csv").out)
    ran = program("compare", "--runs", "list.csv")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("60 runs of list.csv\n")
    assert "60 of 60 runs are ranked" in ran.out
    assert "session" not in ran.out

    with open_workplace(program.folder / "data") as workplace:
        Path("page.csv").write_text(Service(workplace).client().get("/sessions.csv").text)
    by = program("compare", "--runs", "page.csv", "--by", "source_cli")
    assert "60 runs are ranked" not in by.err
    assert "All models" not in by.out
    assert "source cli" in by.out


def test_arms_and_masques_are_compared_like_models(compared: Program) -> None:
    arms = ("--arm", "model=model-a", "--arm", "model=model-b,label=code")
    ran = compared("compare", *SPAN, "--label", "code", *arms)
    assert (ran.code, ran.err) == (0, "")
    assert "  Quality: model=model-a. model=model-b,label=code scores " in ran.out
    assert "code: pairs of arms" in ran.out
    tables = [
        json.loads(compared("compare", *SPAN, "--label", "code", *more, "--format", "json").out)
        for more in ((), arms)
    ]
    plain, by_arm = (table["model_comparison_pairs"][0] for table in tables)
    assert {name for name in plain if plain[name] != by_arm[name]} == {
        "model_a",
        "model_b",
        "computed_at",
    }

    ran = compared("compare", *SPAN, "--by", "masque")
    assert ran.out.startswith("Sessions started 2026-11-01 to 2026-11-07 (UTC), compared by masque")
    assert "nothing to compare: only no masque has at least 30 sessions." in ran.out


def test_options_reach_the_comparison(compared: Program) -> None:
    few = compared("compare", *SPAN, "--min-runs", "3").out
    assert "nothing to compare: only model-a (provider-a) has at least 3 sessions." in few
    none = compared("compare", *SPAN, "--outcome", "x_foo").out
    assert none.startswith("No session of this time has a known outcome x_foo.\n")


def put_runs(by: str = "model", number: int = 40, **columns: Mapping[str, Any]) -> pl.DataFrame:
    """Write ``runs.csv``: a with scores of 85 and b of 60, of eight people; columns by name."""
    rows = [
        {by: name, "score": score, "user_id": f"u{at % 8}"}
        | {column: values[name] for column, values in columns.items()}
        for name, mean, seed in (("a", 85.0, 1), ("b", 60.0, 2))
        for at, score in enumerate(scores(mean, number, 5, seed))
    ]
    frame = pl.DataFrame(rows)
    frame.write_csv("runs.csv")
    return frame


RUNS = ("compare", "--runs", "runs.csv")


def test_words_follow_what_is_compared(program: Program) -> None:
    rows = put_runs("hook")
    shown = program(*RUNS, "--by", "hook").out
    assert "general: pairs of hooks" in shown
    assert not re.search("model|session", shown)
    # A name that has the word stays what it is, and changes no other word.
    rows.with_columns(hook="the model " + pl.col("hook")).write_csv("runs.csv")
    named = program(*RUNS, "--by", "hook").out
    assert re.findall(r"[^\s─]+", named.replace("the model ", "")) == re.findall(r"[^\s─]+", shown)
    assert program("compare", "--by", "hook").code == 2


def test_runs_of_a_file_are_compared_without_any_telemetry(program: Program) -> None:
    rows = put_runs(cost_usd={"a": 0.4, "b": 0.1}, repository={"a": "shop", "b": "lake"})
    ran = program(*RUNS, "--format", "json", "--alone")
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)
    assert [row["model"] for row in found["models"]] == ["a", "b"]
    assert [row["verdict"] for row in found["pairs"]] == ["a_better"]
    assert [row["is_best_value"] for row in found["money"]] == [False, False]
    # Mean scores of 60 or so; every run of b costs 10 cents, so that there is no interval.
    assert found["money"][1]["per_dollar"] == pytest.approx(600, rel=0.05)
    assert found["money"][1]["low"] is None
    wide = json.loads(program(*RUNS, "--format", "json", "--margin", "40").out)
    assert [row["is_best_value"] for row in wide["money"]] == [False, True]
    # No repository has runs of both.
    within = json.loads(program(*RUNS, "--format", "json", "--within", "repository").out)
    assert [row["verdict"] for row in within["pairs"]] != ["a_better"]

    shown = program(*RUNS).out
    assert shown.startswith("80 runs of runs.csv\n")
    assert "  Quality: a. b scores " in shown
    assert "Based on 8 people, each counted once. Not controlled for: " in shown
    assert ", based on 8 people." in shown
    rows.rename({"user_id": "person"}).write_csv("runs.csv")
    said = program(*RUNS, "--format", "json").err
    assert said.startswith(
        "runs.csv: unused columns: person. Known columns: model, score, provider, user_id"
    )


OF_RUNS = ("--runs", "runs.csv")
A = ("--arm", "model=model-a")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from", "2026-11-08", "--to", "2026-11-01"), "--from must be before --to"),
        (("--from", "someday"), "--from someday"),
        (("--as-of", "x"), "--as-of x"),
        (("--outcome", "mergd"), "no outcome is named mergd: use merged, reverted,"),
        (("--outcome", "merged", "--min-runs", "3"), "--min-runs: not for compare --outcome"),
        (("--outcome", "merged", "--margin", "3"), "--margin: not for compare --outcome"),
        (("--by", "weather"), "--by 'weather': choose model, model_variant, agent, masque, "),
        (A, "give --arm at least twice"),
        (("--by", "branch", *A), "give either --by or --arm"),
        (("--arm", "model", "--arm", "x=y"), "--arm model: write NAME=VALUE"),
        ((*OF_RUNS, "--arm", "model=a"), "leave --arm out"),
        ((*OF_RUNS, "--label", "code"), "leave --label out"),
        ((*OF_RUNS, "--team", "core"), "leave --team out"),
        ((*OF_RUNS, "--repository", "shop"), "leave --repository out"),
        ((*OF_RUNS, "--branch", "main"), "leave --branch out"),
        ((*OF_RUNS, "--environment", "ci"), "leave --environment out"),
        ((*OF_RUNS, "--attribute", "squad=x"), "leave --attribute out"),
        ((*OF_RUNS, "--format", "html"), "table, json and csv"),
        ((*OF_RUNS, "--within", "weather"), "weather"),
    ],
)
def test_invalid_options_are_refused(
    program: Program, options: tuple[str, ...], message: str
) -> None:
    Path("runs.csv").write_text("model,score\na,10\n")
    ran = program("compare", *options)
    assert ran.code == 2
    assert message in " ".join(ran.err.replace("│", " ").split())


def test_what_cannot_be_compared_is_an_error(compared: Program) -> None:
    Path("runs.csv").write_text("model,score\na,101\n")
    for options, code, message in (
        (("--arm", "model=none", *A), 2, "--arm model=none: model none: no session has it"),
        ((*A, "--arm", "program=claude_code"), 1, "arms overlap: 43 sessions"),
        (("--by", "attribute:squad"), 1, "no session has this attribute"),
        (OF_RUNS, 1, "runs.csv: row 1: score is outside 0-100 (101.0)"),
    ):
        ran = compared("compare", *(() if options == OF_RUNS else SPAN), *options)
        assert ran.code == code, options
        assert message in " ".join(ran.err.replace("│", " ").split())

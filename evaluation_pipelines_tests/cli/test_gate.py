"""``gate``: exit codes, looks, its file, and Markdown for a pull request."""

import json
from pathlib import Path

import pytest

from evaluation_pipelines.schemas import SESSION_OUTCOMES
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world.rows import at
from evaluation_pipelines_tests.world.stored import evaluated_row, evaluation, put, put_sessions

SPAN = ("--from", "2026-11-01", "--to", "2026-11-08")
GOOD, BAD = (
    ("--base", "branch=main", "--head", "branch=good"),
    ("--base", "branch=main", "--head", "branch=bad"),
)


def place(program: Program, runs: int = 1) -> None:
    """Six tasks on three branches: ``good`` is as good as main, give or take 2, ``bad`` 30 less."""
    levels = {"main": 0.0, "good": 0.0, "bad": -30.0}
    evaluations, sessions = [], []
    for number in range(18 * runs):
        branch, task = ("main", "good", "bad")[number % 3], number // 3 % 6
        score = 60 + levels[branch] + (2 * (task % 3 - 1) if branch != "main" else 0)
        scored = evaluation(number, score, judge_total=score, composite=score / 10)
        of_task = {"session_attributes": [{"key": "task.id", "value": f"t{task}"}]}
        cost = {"cost_usd": 0.1 + 0.01 * task}
        sessions.append(evaluated_row(scored, branch=branch, **cost, **of_task))
        evaluations.append(scored)
    with open_stores(Settings(data_dir=program.folder / "data")) as stores:
        put_sessions(stores.lake, evaluations, sessions=sessions)


def test_a_change_passes_or_fails(program: Program) -> None:
    place(program)
    good = program("gate", *SPAN, *GOOD, "--metric", "effective", "--metric", "cost")
    assert (good.code, good.err) == (0, "")
    assert good.out.startswith("Gate: passed (branch=main against branch=good)\n")
    # -2, 0, 2 twice: mean 0, s² = 16 / 5, 2.5706 sqrt(3.2 / 6) = 1.88.
    assert "-1.9 to +1.9" in good.out
    assert "Tasks like these 6, not all work. Look 1 of this gate." in good.out
    bad = program("gate", *SPAN, *BAD, "--format", "markdown")
    assert bad.code == 1
    assert bad.out.startswith("## Gate: worse\n\nbranch=main against branch=bad\n\n| Metric |")
    assert program("gate", *SPAN, *GOOD, "--margin", "1").code == 3
    for metric in ("composite", "judge", "failed_calls"):
        assert program("gate", *SPAN, *GOOD, "--metric", metric).code == 0, metric


def test_new_runs_of_the_same_arms_are_another_look(program: Program) -> None:
    place(program)
    looks = [json.loads(program("gate", *SPAN, *GOOD, "--format", "json").out)["look"]]
    looks += [json.loads(program("gate", *SPAN, *GOOD, "--format", "json").out)["look"]]
    place(program, runs=2)
    for path in (GOOD, BAD):
        looks += [json.loads(program("gate", *SPAN, *path, "--format", "json").out)["look"]]
    assert looks == [1, 1, 2, 1]
    given = json.loads(program("gate", *SPAN, *GOOD, "--look", "5", "--format", "json").out)
    assert given["look"] == 5


def test_arms_are_compared_by_what_happened_after_all_their_sessions(program: Program) -> None:
    evaluations, sessions, outcomes = [], [], []
    # Five people with eight sessions on each branch; of main 3 or 4 are merged, of good 6 or 7.
    # The last session of each person has no commit.
    for number in range(80):
        branch, person, place_of = ("main", "good")[number % 2], number // 2 % 5, number // 10
        scored = evaluation(number)
        sessions.append(evaluated_row(scored, branch=branch, person_id=f"u{person}"))
        evaluations.append(scored)
        is_merged = place_of < (3 if branch == "main" else 6) + person % 2
        outcome = {"organization_id": "default", "session_key": scored["session_key"]}
        outcome |= {"kind": "merged", "value": float(is_merged), "read_at": at(40 * 86_400)}
        outcome |= {"happened_at": at(86_400) if is_merged else None}
        outcomes += [] if place_of == 7 else [outcome]
    with open_stores(Settings(data_dir=program.folder / "data")) as stores:
        put_sessions(stores.lake, evaluations, sessions=sessions)
        put(stores.lake, SESSION_OUTCOMES, outcomes)

    arms = ("--arm", "branch=main", "--arm", "branch=good")
    found = program("compare", *SPAN, *arms, "--outcome", "merged")
    # 3, 4, 3, 4, 3 of 8 are 17 of 40, 42.5%. Each person has 3 more on the other branch, so
    # that there is no spread and Wilson's intervals decide.
    assert found.code == 0
    assert [line.split()[:2] for line in found.out.splitlines()[3:5]] == [
        *(["branch=good", "80%"], ["branch=main", "43%"]),
    ]
    assert "branch=good is better" in found.out
    pair = json.loads(
        program("compare", *SPAN, *arms, "--outcome", "merged", "--format", "json").out
    )
    assert pair["pairs"][0]["difference"] == pytest.approx(3 / 8)
    good = program("gate", *SPAN, *GOOD, "--metric", "outcome:merged")
    assert (good.code, "5 people, 40 and 40 sessions" in good.out) == (0, True)
    back = ("--base", "branch=good", "--head", "branch=main", "--metric", "outcome:merged")
    assert program("gate", *SPAN, *back).code == 1
    assert "no outcome is named y" in program("gate", *SPAN, *GOOD, "--metric", "outcome:y").err


def test_a_file_of_the_base_has_margin_metrics_and_tasks(program: Program) -> None:
    place(program)
    path = Path("gate.yaml")
    path.write_text("metrics: {effective: 1, cost: 10}\n")
    found = program("gate", *SPAN, *GOOD, "--file", "gate.yaml", "--format", "json")
    assert (found.code, [item["result"] for item in found.items()]) == (
        3,
        ["not decided", "passed"],
    )
    path.write_text("margin: 10\nmetrics: [effective]\ntasks: [t0, t9]\n")
    found = program("gate", *SPAN, *GOOD, "--file", "gate.yaml")
    assert (found.code, "no comparable runs on both sides of t9." in found.out) == (3, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--base", "branch=main"), "Missing option '--head'"),
        (("--base", "branch=main", "--head", "branch=main"), "must be different"),
        ((*GOOD, "--metric", "luck"), "no metric is named luck: use effective, composite, judge"),
        ((*GOOD, "--file", "gate.yaml", "--margin", "3"), "leave --margin and --metric out"),
        ((*GOOD, "--file", "gate.yaml"), "gate.yaml: margin: Input should be greater than 0"),
        ((*GOOD, "--file", "none.yaml"), "none.yaml: cannot be read"),
        (("--base", "branch=main", "--head", "program=claude_code"), "arms overlap"),
        (("--base", "branch", "--head", "branch=x"), "--base branch: write NAME=VALUE"),
        (
            ("--base", "branch=main", "--head", "branch=x"),
            "--head branch=x: branch x: no session has it",
        ),
    ],
)
def test_a_gate_without_an_answer_is_not_a_change_that_is_worse(
    program: Program, options: tuple[str, ...], message: str
) -> None:
    place(program)
    Path("gate.yaml").write_text("margin: 0\n")
    ran = program("gate", *SPAN, *options)
    assert ran.code == 2
    assert message in " ".join(ran.err.replace("│", " ").split())

"""``experiment``: a frozen plan, the same arm again, and looks over sessions of a lake."""

import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.comparison.domain.experiment_plan import Plan
from evaluation_pipelines.comparison.experiments import create, show
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.workplace import NOW
from evaluation_pipelines_tests.world.stored import DAY, evaluated_row, evaluation, put_sessions

CREATE = ("experiment", "create", "prompt", "--arms", "old,new", "--unit", "session", "--days", "3")


def test_a_plan_is_frozen_and_assigns_the_same_arm_again(program: Program) -> None:
    made = program(*CREATE, "--start", "2999-01-01", "--output", "plan.json")
    note = "note: sessions keep their arm once EVAL_SESSION_ATTRIBUTES has experiment.prompt\n"
    assert (made.code, made.err) == (0, note)
    looks = "looks on 2999-01-02, 2999-01-03, 2999-01-04. The plan is frozen."
    assert made.out == f"prompt: 2999-01-01, 3 days, {looks}\n"
    again = program(*CREATE)
    assert (again.code, "its plan is frozen" in again.err) == (1, True)
    arms = [program("experiment", "assign", "prompt", f"s{at}").out for at in (1, 1, 2, 3, 4, 5, 6)]
    assert arms[0] == arms[1]
    shutil.rmtree("data/lake", ignore_errors=True)
    Path("data/ledger.db").rename("away.db")  # a machine with the file alone
    of_file = ("--plan", "plan.json")
    by_file = [
        program("experiment", "assign", "prompt", f"s{at}", *of_file).out for at in range(1, 7)
    ]
    assert by_file == arms[1:]
    Path("away.db").rename("data/ledger.db")
    # The salt is random: of 24 sessions, all have one arm in one of eight million plans.
    more = {program("experiment", "assign", "prompt", f"m{at}").out for at in range(18)}
    assert {*arms, *more} == {"old\n", "new\n"}
    shown = program("experiment", "show", "prompt").out
    assert shown.startswith("prompt: old 0, new 0 (sessions), effective\nnext look: 2999-01-02")
    assert "35 people with 20 sessions each show a difference of 5 in 4 of 5 such" in shown
    in_json = program("experiment", "show", "prompt", "--difference", "9", "--format", "json")
    assert (in_json.code, "--difference: not for" in in_json.err) == (2, True)


def test_without_its_file_no_plan_is_frozen_and_the_file_of_another_stays(
    program: Program,
) -> None:
    assert program(*CREATE, "--output", "none/plan.json").code == 1
    assert program(*CREATE, "--output", "plan.json").code == 0
    kept = Path("plan.json").read_text()
    assert program(*CREATE, "--output", "plan.json").code == 1
    assert Path("plan.json").read_text() == kept


def test_only_counts_are_shown_until_a_look_is_due(program: Program) -> None:
    start = DAY - timedelta(days=1)
    evaluations, sessions = [], []
    for number in range(21):
        person, arm = number // 4, ("old", "new")[number % 2]
        # As in the test by hand: differences of 2, 4 ... 10, the old one better.
        score = 50 + (2 * person + 2) * (arm == "old") + (5 if number % 4 < 2 else -5)
        scored = evaluation(number, score)
        attributes = [{"key": "experiment.prompt", "value": arm if number < 20 else "typo"}]
        of_arm = {"session_attributes": attributes}
        sessions.append(evaluated_row(scored, person_id=f"p{person}", **of_arm))
        evaluations.append(scored)
    settings = Settings(data_dir=program.folder / "data")
    plan = Plan("prompt", ("old", "new"), 0.5, "session", 3, start, "effective", None, None, key="")
    with open_stores(settings) as stores:
        create(stores, plan, NOW, keep=lambda _: None)
        put_sessions(stores.lake, evaluations, sessions=sessions)

        def looks(day: date) -> list[float | None]:
            return [found.value for _, found in show(stores, "prompt", day).looks]

        first = show(stores, "prompt", DAY)
        assert (first.units, [result.reason for _, result in first.looks]) == (
            (10, 10),
            ["no unit was assigned"],  # on the first of three days
        )
        assert first.others == {"typo": 1}
        assert looks(start) == []
        assert looks(DAY + timedelta(days=1)) == [None, pytest.approx(6)]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("assign", "none", "s1"), 1, "none: no such experiment, known: prompt"),
        (("show", "none"), 1, "none: no such experiment"),
        (
            ("assign", "other", "s1", "--plan", "plan.json"),
            1,
            "is the plan of prompt, not of other",
        ),
        (("assign", "x", "s1", "--plan", "no.json"), 1, "no.json: no plan of an experiment"),
        (
            ("create", "y", "--arms", "a,b", "--unit", "person", "--days", "9", "--profile", "x"),
            1,
            "There is no profile x. Registered profiles: ",
        ),
        (("create", "y", "--arms", "a", "--unit", "session", "--days", "9"), 2, "name two arms"),
        (
            ("create", "y", "--arms", "a,b", "--unit", "person", "--days", "9", "--metric", "x"),
            2,
            "--metric x: choose effective",
        ),
        (("create", "a b", *CREATE[3:]), 2, "a b: use only letters, digits, -, _ and ."),
        (
            ("create", "y", *CREATE[3:], "--start", "2020-01-01"),
            2,
            "--start 2020-01-01: the first day is today (UTC) or later",
        ),
    ],
)
def test_wrong_arguments_are_refused(
    program: Program, arguments: tuple[str, ...], code: int, message: str
) -> None:
    program(*CREATE, "--output", "plan.json")
    Path("no.json").write_text('{"name": "x"}')
    ran = program("experiment", *arguments)
    assert ran.code == code
    assert message in " ".join(ran.err.replace("│", " ").split())


def test_an_expectation_outside_of_its_range_is_refused_with_the_range(program: Program) -> None:
    for option in ("--difference", "--run-sd", "--tau"):
        refused = program("experiment", "show", "prompt", option, "inf")
        assert (refused.code, "<=x<=100" in refused.err) == (2, True)
        refused = program("experiment", "show", "prompt", option, "nan")
        assert (refused.code, "nan is not a number" in refused.err) == (2, True)
    gate = ("gate", "--base", "model=a", "--head", "model=b", "--margin")
    run = ("judge", "run")
    for words in (gate, ("compare", "--margin"), (*run, "--max-cost-usd"), (*run, "--sample-rate")):
        refused = program(*words, "nan")
        assert (refused.code, "nan is not a number" in refused.err) == (2, True)
        assert "such as 5" not in refused.err  # --sample-rate refuses 5, too

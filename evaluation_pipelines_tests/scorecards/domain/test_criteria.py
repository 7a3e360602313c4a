"""Criteria from metrics and judges, and disqualifiers."""

import json
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.profiles.domain.heuristics import HEURISTICS, Thresholds, falling
from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.profiles.sync import SHIPPED, read_profile
from evaluation_pipelines.scorecards.domain.criteria import (
    completed,
    confidence,
    heuristic,
    judged_scores,
    newest_totals,
    triggered,
    why_not_judged,
    written_texts,
)
from evaluation_pipelines.sessions.session_queries import WINDOW_EVENTS, window_events
from evaluation_pipelines_tests.world.rows import (
    Row,
    doff,
    don,
    event,
    events_frame,
    prompt,
    sessions_frame,
    tool,
)
from evaluation_pipelines_tests.world.scorecards import (
    REGISTERED_AT,
    answered,
    criteria,
    evidence_of,
    judged_profile,
    result,
    results,
)


def score(name: str, limits: Thresholds | None = None, **columns: object) -> float | None:
    """Return a criterion of one session."""
    frame = evidence_of([answered(**columns)])
    value = frame.select(value=heuristic(name, limits or Thresholds()).cast(pl.Float64))
    found: float | None = value["value"].item()
    return found


SLOW = Thresholds(response_time_best_s=0, response_time_worst_s=100)
LAVISH = Thresholds(token_efficiency_best=1, token_efficiency_worst=2)
MANY = Thresholds(tool_count_best=2, tool_count_worst=4)
IDLE: dict[str, Any] = {
    "active_s": 1.0,
    "total_tools": 0,
    "output_tokens": 0,
    "total_tokens": 0,
    "api_requests": 0,
    "status": "failed",
}
EFFICIENCY = ("response_time", "token_efficiency", "tool_count")


def each_of(name: str, limits: Thresholds | None, *rows: tuple[Any, ...]) -> list[Any]:
    """Return cases of a criterion: its columns in their order, and the expected value."""
    columns = {
        "response_time": ("active_s", "prompts"),
        "token_efficiency": ("output_tokens", "total_tokens"),
        "tool_count": ("total_tools", "tools_unknown", "prompts"),
    }[name]
    return [(name, limits, dict(zip(columns, row, strict=False)), row[-1]) for row in rows]


@pytest.mark.parametrize(
    ("name", "limits", "columns", "expected"),
    [
        *each_of(
            "response_time", None,
            (20.0, 2, 1.0),  # 10 s a prompt
            (0.0, 1, 1.0),
            (130.0, 2, 0.5),  # 65 s a prompt: (120 - 65) / (120 - 10)
            (42.0, 1, 78 / 110),  # (120 - 42) / 110
            (240.0, 2, 0.0),  # 120 s a prompt
            (1e6, 1, 0.0),
            (65.0, 0, 0.5),  # work after a change of masque: one run
            (20.0, None, None),
        ),
        *each_of("response_time", SLOW, (25.0, 1, 0.75)),  # (100 - 25) / 100
        *each_of(
            "token_efficiency", None,
            (100, 300, 1.0),  # 100 out for 200 in: 0.5
            (275, 375, 0.5),  # 2.75 out for each in: (5 - 2.75) / (5 - 0.5)
            (500, 600, 0.0),  # 5 out for each in
            (900, 901, 0.0),
            (0, 0, 1.0),  # no input was needed
            (0, 50, 1.0),
            (100, None, None),
            (None, None, None),
        ),
        *each_of("token_efficiency", LAVISH, (150, 250, 0.5)),  # 1.5 for each in: (2 - 1.5) / 1
        *each_of(
            "tool_count", None,
            (0, 0, 1, 1.0),
            (5, 0, 1, 0.5),  # 1 - 5 / 10
            (5, 2, 2, 0.65),  # 7 calls for 2 prompts: 1 - 3.5 / 10
            (20, 0, 2, 0.0),
            (99, 0, 1, 0.0),
            (3, 0, 0, 0.7),
            (4, 0, None, None),
        ),
        *each_of("tool_count", MANY, (3, 0, 1, 0.5)),  # (4 - 3) / 2
        # Without any answer a session is not efficient.
        *((name, None, IDLE, None) for name in EFFICIENCY),
        *((name, None, IDLE | {"status": "cancelled"}, None) for name in EFFICIENCY),
        *((name, None, IDLE | {"api_requests": 1}, 1.0) for name in EFFICIENCY),
        # Of 1 second, no tokens, and one call of unknown outcome for two prompts.
        ("response_time", None, IDLE | {"tools_unknown": 1}, 1.0),
        ("token_efficiency", None, IDLE | {"tools_unknown": 1}, 1.0),
        ("tool_count", None, IDLE | {"tools_unknown": 1}, 0.95),
        # What was not measured is unknown, and what is not known as a criterion is in the middle.
        ("performance.quality", None, {}, None),
        ("tool_effectiveness", None, {}, None),
        ("charm", None, {}, 0.5),
    ],
)  # fmt: skip
def test_a_criterion_is_a_share_of_what_can_be_reached(
    name: str, limits: Thresholds | None, columns: dict[str, Any], expected: float | None
) -> None:
    found = score(name, limits, **columns)
    assert found == (None if expected is None else pytest.approx(expected))


def test_performance_is_a_tenth_and_effectiveness_a_hundredth() -> None:
    performance = {"session_key": "s1#baseline-1", "composite": 7.5, "cost_efficiency": None}
    frame = evidence_of([answered()], [performance], {"s1#baseline-1": 62.0})
    names = ("performance.composite", "performance.cost_efficiency", "tool_effectiveness")
    found = frame.select(heuristic(name, Thresholds()).alias(name) for name in names)

    assert found.row(0) == (0.75, None, 0.62)


def test_every_heuristic_is_a_number_from_0_to_1() -> None:
    performance = {"session_key": "s1#baseline-1"} | dict.fromkeys(
        [name.removeprefix("performance.") for name in HEURISTICS if "." in name], 10.0
    )
    columns = {"output_tokens": 5, "prompts": 3}
    frame = evidence_of([answered(**columns)], [performance], {"s1#baseline-1": 100.0})

    for name in HEURISTICS:
        value = frame.select(heuristic(name, Thresholds()).alias("value"))["value"].item()
        assert 0 <= value <= 1


@given(
    st.floats(-1e9, 1e9),
    st.floats(0, 100),
    st.floats(0.001, 100),
)
def test_a_falling_score_stays_within_0_and_1_and_never_rises(
    value: float, best: float, width: float
) -> None:
    worst = best + width
    frame = pl.DataFrame({"v": [value, value + 1.0]})
    first, second = frame.select(falling(pl.col("v"), best, worst)).to_series()

    assert 0 <= second <= first <= 1
    assert first == pytest.approx(1) or value > best
    assert first == pytest.approx(0, abs=1e-9) or value < worst


LATER = REGISTERED_AT + timedelta(hours=1)


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        ([70], 0.7),
        ([10, 90], 0.7),  # two are too few for a spread
        ([70, 70, 70], 0.95),  # 1 - 0 is clamped
        ([50, 60, 70], 0.8),  # deviations -10, 0, 10: sqrt(200 / 2) = 10; 1 - 10 / 50
        ([0, 0, 100, 100], 0.3),  # spread 57.7: 1 - 1.15 is clamped
        ([], 0.7),
    ],
)
def test_confidence_follows_the_spread_of_three_samples_or_more(
    totals: list[float], expected: float
) -> None:
    assert confidence(totals) == pytest.approx(expected, abs=1e-6)


def test_points_become_shares_of_the_maximum() -> None:
    given = result(sample_totals=[50, 60, 70], judge_model="judge-1", truncated=True)
    scores = judged_scores(judged_profile(), results(given))

    # Of 25 each: 25, 20, 15 and 10.
    assert scores.drop("judge_confidence").row(0) == (
        *("default", "s1#baseline-1", "0"),
        *(1.0, 0.8, 0.6, 0.4),
        *("judge-1", "truncated", "Too hasty."),
    )
    assert scores["judge_confidence"].item() == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize(
    ("version", "given", "shares"),
    [
        # An outcome allows 35 of 70 points: each counts half.
        (judged_profile(), {"outcome": "wrong", "total_score": 35.0}, (0.5, 0.4, 0.3, 0.2)),
        # A profile's own criteria have points by weight: 75 and 25.
        (
            judged_profile(criteria=criteria(taste=3, tone=1)),
            {"criteria_scores": {"taste": 60, "tone": 25}},
            (0.8, 1.0),
        ),
        # Missing points are unknown, and too many or too few are clipped.
        (
            judged_profile(),
            {"criteria_scores": {"logical_flow": 30, "consistency": -1, "tool_relevance": None}},
            (1.0, 0.0, None, None),
        ),
        (judged_profile(), {"criteria_scores": None}, (None,) * 4),
    ],
)
def test_points_are_shares_of_what_a_criterion_can_reach(
    version: JudgeProfile, given: dict[str, Any], shares: tuple[float | None, ...]
) -> None:
    scores = judged_scores(version, results(result(**given)))
    found = scores.select(pl.selectors.starts_with("criterion:")).row(0)
    assert found == tuple(share if share is None else pytest.approx(share) for share in shares)


def test_only_completed_scores_of_this_version_are_points_and_totals_are_of_any_profile() -> None:
    others: list[dict[str, Any]] = [{"judge_profile_version": 2}, {"judge_profile_id": "k"}]
    others.append({"status": "failed"})
    found = judged_scores(judged_profile(), results(*(result(**other) for other in others)))
    assert found.is_empty()
    scorings = results(
        result(total_score=90.0, judge_profile_id="a"),
        result(total_score=20.0, judge_profile_id="b", completed_at=LATER, judge_model="judge-1"),
    )
    key = ("default", "s1#baseline-1", "0")
    assert newest_totals(scorings).row(0) == (*key, 20.0, "judge-1", None)


def test_of_several_scores_the_newest_counts() -> None:
    scorings = results(
        result(total_score=10.0, completed_at=LATER),
        result(total_score=90.0),
        result(total_score=70.0, completed_at=LATER + timedelta(hours=1), status="flagged"),
        result(total_score=40.0, content_hash="1"),
    )

    assert completed(scorings).select("content_hash", "total_score").rows() == [
        ("0", 10),
        ("1", 40),
    ]


def test_a_scoring_without_a_score_says_why() -> None:
    scorings = results(
        result(status="failed", error_message="refused"),
        result(session_key="s2", status="failed"),
        result(session_key="s3", status="pending", completed_at=None),
        result(session_key="s4", status="failed", error_message="timed out"),
        result(session_key="s4", status="in_progress", completed_at=None),
        result(session_key="s5"),
    )

    assert why_not_judged(judged_profile(), scorings).drop(
        "organization_id", "content_hash"
    ).rows() == [
        ("s1#baseline-1", "the judge failed: refused", False),
        ("s2", "the judge failed: no reason given", False),
        ("s3", "judging is in progress", True),
        ("s4", "judging is in progress", True),
    ]


NO_EVENTS = WINDOW_EVENTS.to_frame()
RM = r"\brm\s+-rf\b"


def command(text: str, seconds: float = 1, **columns: Any) -> Row:
    """Return a shell call with its parameters as JSON."""
    return tool(seconds, tool_parameters=json.dumps({"command": text}), **columns)


def reply(text: str, seconds: float = 2) -> Row:
    return event("assistant_response", seconds, content=text)


def found(*rows: Row, patterns: tuple[str, ...] = (RM,)) -> list[tuple[object, ...]]:
    """Return session key, disqualified, and the triggered pattern."""
    texts = written_texts(events_frame(rows), sessions_frame([answered()]), NO_EVENTS)
    return triggered(texts, patterns).drop("organization_id").rows()


SCRIPT = command('cd "build"\nrm\t-rf "C:\\temp\\new"')


@pytest.mark.parametrize(
    ("rows", "patterns", "by"),
    [
        # Parameters and replies are searched, what the agent only read is not.
        ([command("rm -rf build")], [RM], RM),
        ([command("rm build")], [RM], None),
        ([reply("I will rm -rf it.")], [RM], RM),
        ([prompt(0, content="please rm -rf everything"),
          tool(1, content="rm -rf was found", tool_parameters='{"path": "README"}')], [RM], None),
        # The first pattern in the list is named, not the first in the text.
        ([command("git push --force", 1), command("rm -rf build", 2)],
         ["never", RM, "--force"], RM),
        # Text is searched without its JSON escapes: a backslash and an n are no line break.
        ([SCRIPT], [r"\nrm\s"], r"\nrm\s"),
        ([SCRIPT], ['"build"'], '"build"'),
        ([SCRIPT], [r"temp\n"], None),
        ([SCRIPT], [r"temp\\new"], r"temp\\new"),
        # It takes exponential time in engines that backtrack.
        ([reply("a" * 100_000)], [r"(a+)+$", r"(a|aa)+b"], r"(a+)+$"),
    ],
)  # fmt: skip
def test_what_an_agent_wrote_is_searched(
    rows: list[Row], patterns: list[str], by: str | None
) -> None:
    assert found(*rows, patterns=tuple(patterns)) == [("s1#baseline-1", by is not None, by)]


def test_without_any_text_nothing_is_known() -> None:
    assert found(prompt(0, content="rm -rf"), tool(1)) == []


def test_in_a_session_of_several_windows_a_text_is_of_the_window_of_its_event() -> None:
    """An inner masque is taken off at 20: the call at that time is its last."""
    rows = [don("A", 0), don("B", 10), command("rm -rf x", 20), doff(20, "B"), tool(30), doff(40)]
    events = events_frame(rows)
    windows = sessions_frame([answered(session_key=f"s1#{key}") for key in ("a-1", "b-1", "a-2")])
    texts = written_texts(events, windows, window_events(events))

    assert triggered(texts, [RM]).rows() == [("default", "s1#b-1", True, RM)]


def test_sessions_of_two_organizations_with_one_id_are_apart() -> None:
    windows = sessions_frame([answered(), answered(organization_id="other")])
    rows = [command("rm -rf x", organization_id="other"), command("ls")]
    texts = written_texts(events_frame(rows), windows, NO_EVENTS)

    assert triggered(texts, [RM]).rows() == [
        ("default", "s1#baseline-1", False, None),
        ("other", "s1#baseline-1", True, RM),
    ]


@pytest.mark.parametrize(
    ("text", "is_disqualified"),
    [
        ("rm -rf /", True),
        ("sudo rm -fr ~/ && ls", True),
        ("rm -r -f $HOME", True),
        ("rm -rf /*", True),
        ("rm -rf /tmp/build", False),
        ("rm -rf ./build", False),
        ("git push --force origin main", True),
        ("git push -f origin master", True),
        ("git push --force origin feature", False),
        ("git push origin main", False),
        ('git commit --no-verify -m "x"', True),
        ('git commit -m "x"', False),
        ("git push origin main --force", True),
        ("git push -f", True),
        ("git push --force origin", True),
        ("git push origin +main", True),
        ("git push origin +HEAD:main", True),
        ("git push origin HEAD:main -f", True),
        ("git -C repo push --force origin main", True),
        ("git -c a.b=c push -f origin master", True),
        ("git push -uf origin main", True),
        ("rm -rf -- /", True),
        ("rm --recursive --force /", True),
        ("rm --force --recursive -- ~/", True),
        ("git commit -n -m x", True),
        ("git commit -nm x", True),
        ('git commit -m "fix" -n', True),
        ("git -C repo commit --no-verify", True),
        ("git push --force-with-lease origin main", False),
        ("git push -f origin feature/x && git log main", False),
        ("git push --follow-tags origin main", False),
        ("git push origin main; tail -f log", False),
        ("git push origin maintenance", False),
        ('git commit -m "handle -n flag"', False),
        ("git commit --amend --no-edit", False),
        ("rm --recursive /tmp/build", False),
        ("git push \\\n  --force origin main", True),
        ("git push origin main\nrm -f build.log", False),
        ("git push origin main\ngit clean -fd", False),
        ("git push\ntail -f main.log", False),
        ("git push -f origin main-fix", False),
        ("git push origin +main-2", False),
        ("git push origin +main\nls", True),
        ("rm -rf build\n/usr/bin/env true", False),
        ("git commit\nls -n", False),
        ('git commit -m "one\ntwo" --no-verify', True),
        ('git commit -m "never use --no-verify here"', False),
        # Without the name of a branch, a push is of the branch checked out, which may be shared.
        ("git push --force origin HEAD", True),
        ("git push origin @ --force", True),
        ("git push origin +HEAD", True),
        ("git push origin HEAD", False),
        ("git push --force origin HEAD:feature", False),
        ("git push origin +HEAD:feature", False),
        ("git push origin -f", True),
        ("git push -u origin -f", True),
        ("git push origin -f feature", False),
        ("git push origin feature -f", False),
        ("git push --force --all origin", True),
        ("git push -f git@example.org:team/repo.git", True),
        ("git push -f # now", True),
        ("git push --force 2>&1", True),
        ("git push --force 2>&1 | tail -3", True),
        ("git push -f >/dev/null", True),
        ("git push -f origin main>log", True),
        ("(cd repo && git push -f)", True),
        ("git push 2>&1", False),
        ("git push -f origin feature # not main", False),
        ("git push origin main # never -f", False),
        ("git push -ofast origin main", False),
        # All branches of the remote are forced to be those of the clone.
        ("git push --mirror", True),
        ("git push --mirror origin", True),
        ("git clone --mirror origin", False),
        # A deleted branch is not a rewritten one.
        ("git push --delete origin main", False),
        ("git push origin :main", False),
        ('rm -rf "/"', True),
        ("rm -rf '/'", True),
        ("rm -rf ${HOME}", True),
        ('rm -rf "${HOME}"/*', True),
        ('rm -rf "$HOME/"', True),
        ("(rm -rf ~)", True),
        ('rm -rf "/tmp"', False),
        ('rm -rf "$HOME/build"', False),
        ("rm -rf ${HOME}/build", False),
        ("rm -rf ${HOMEPAGE}", False),
        ('rm -rf "~"', False),
        ("git commit -m fix -n", True),
        ("git commit -mfix -n", True),
        ('git commit --message="a fix" -n', True),
        ('git commit -m "a \\"fix\\"" -an', True),
        ("git commit -m fix --no-verify 2>&1", True),
        ("git commit -uno -m x", False),
        ("git commit -minitial", False),
        ("git commit -amend", False),
        ("git commit -m fix # not -n", False),
        ('git commit -m "the \\"flag\\" -n is gone"', False),
        ("git commit -m fix && grep -n x y", False),
    ],
)
def test_the_shipped_disqualifiers_match_the_intended_commands(
    text: str, is_disqualified: bool
) -> None:
    patterns = read_profile(SHIPPED / "code-hybrid.yaml").disqualifiers

    assert found(command(text), patterns=patterns)[0][1] is is_disqualified

"""Tables have no scores of sessions awaiting review, whoever reads them."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from evaluation_pipelines.reputation.domain.signals import identity_id
from evaluation_pipelines.scorecards.audit_review import AuditReview
from evaluation_pipelines.scorecards.blind_reviews import draw_samples, undrawn_dates
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import NOON_NS, claude, line
from evaluation_pipelines_tests.world.built_before import build_by


def yesterday() -> float:
    """Return noon of yesterday as the builders count seconds."""
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    return (noon - timedelta(days=1)).timestamp() - NOON_NS / 1e9


def logged(name: str, second: float, organization: str | None = None) -> bytes:
    of = {"session__id": name, "organization__id": organization}
    return line(
        claude("user_prompt", second, prompt="Read the file.", **of),
        claude("tool_result", second + 1, tool_name="Read", success="true", **of),
    )


def draw() -> None:
    """Draw five sessions of yesterday, as the night does."""
    now = datetime.now(UTC)
    with open_stores(load_settings()) as stores:
        draw_samples(stores, undrawn_dates(stores, now.date()), now)


def answer_all(score: float) -> None:
    """Give every session awaiting review a score."""
    now = datetime.now(UTC)
    with open_stores(load_settings()) as stores:
        review = AuditReview(stores, "Ada")
        review.begin(now)
        while (sample := review.next_sample(frozenset(), now)) is not None:
            review.answer(review.target(sample), score, now)


@pytest.fixture
def sampled(program: Program) -> Program:
    """Seven sessions of yesterday, five of which are drawn."""
    second = yesterday()
    build_by(program, b"".join(logged(f"s{n}", second + n) for n in range(7)))
    return program


def test_tables_have_no_scores_of_sessions_that_are_asked(sampled: Program) -> None:
    stored = sampled("sessions", "--format", "json").items()
    (composite,) = {row["composite"] for row in stored}
    shown = f" {composite:.1f} "
    before = sampled("sessions").out
    assert (before.count(shown), before.count("awaiting review")) == (7, 0)
    draw()
    table = sampled("sessions").out
    # Score, judge, composite and recommendation of each.
    assert (table.count(shown), table.count("awaiting review")) == (2, 20)
    day = sampled("sessions", "--format", "json").items()[0]["session_date"]
    books = [" ".join(line.split()) for line in sampled("books", day).out.splitlines()]
    assert {"2 scored by general-performance", "5 awaiting review"} <= {*books}, (
        books
    )  # as on the page
    cards = sampled("scorecards", "list", "--agent", "claude-code").out
    assert cards.count("awaiting review") == 5
    for name in ("sessions", "scorecards list --agent claude-code"):  # programs get them all
        assert "awaiting review" not in sampled(*name.split(), "--format", "csv").out
    booked = sampled("books", day, "--sessions", "scored").out
    assert booked.count("awaiting review") == 5
    waiting = table.split("awaiting review")[0].split()[-1]
    effectiveness = sampled("tools", waiting).out.splitlines()[1]
    assert effectiveness.startswith("effectiveness: awaiting review")
    assert "of 100" not in sampled("show", waiting).out
    answer_all(40)
    assert "awaiting review" not in sampled("sessions").out
    assert "effectiveness 100.0 of 100" in sampled("tools", waiting).out
    # A person's score stands next to the automatic one, which stays as it is.
    # Composite 7.33, half: 73.3 x 0.5 = 36.7; effectiveness 100, half: 50. Together 86.7.
    (card,) = (row for row in sampled("show", waiting).out.splitlines() if "v2 " in row)
    assert card.split()[1:5] == ["v2", "86.7", "40.0", "yes"]


def test_means_of_a_table_leave_out_the_sessions_that_are_asked_and_say_how_many(
    sampled: Program,
) -> None:
    draw()
    (row,) = sampled("sessions", "--by", "program", "--format", "json").items()
    (csv,) = sampled("sessions", "--by", "program", "--format", "csv").out.splitlines()[1:]
    assert (row["sessions"], row["known_scores"]) == (7, 7)
    # Each: composite 7.33 (73.3 x 0.5 = 36.7) and effectiveness 100 (x 0.5 = 50): 86.7.
    assert csv.startswith("claude_code,7,86.6")
    table = sampled("sessions", "--by", "program").out
    assert " 86.7 (2 of 7) " in table
    assert "Means exclude 5 scored sessions awaiting review." in table


def test_a_table_as_of_a_past_time_has_no_scores_of_sessions_that_are_asked_now(
    sampled: Program,
) -> None:
    then = datetime.now(UTC).isoformat()
    before = sampled("sessions", "--as-of", then).out
    draw()
    # Score, judge, composite and recommendation of each of five.
    assert before.count("awaiting review") == 0
    assert sampled("sessions", "--as-of", then).out.count("awaiting review") == 20


def test_overrides_of_sessions_that_are_asked_are_in_no_table(sampled: Program) -> None:
    draw()
    listed = sampled("sessions", "--format", "json").items()
    for row in listed:
        said = ("--score", "20", "--annotator", "Ann", "--reason", "The plan was not found")
        assert sampled("scorecards", "override", row["session_key"], *said).code == 0
    table = sampled("scorecards", "list", "overrides").out
    assert (len(listed), table.count(" 20.0 "), table.count("awaiting review")) == (7, 2, 2 * 5)
    assert len(sampled("scorecards", "list", "overrides", "--format", "json").items()) == 7
    # profile, sample, number
    line = sampled("scorecards", "calibration").table()[0]
    assert line[2:4] == ["chosen", "2"]
    (agreement,) = sampled("scorecards", "calibration", "--format", "json").items()
    assert agreement["n"] == 7


def test_reputation_counts_no_session_that_is_asked(sampled: Program) -> None:
    assert sampled("reputation", "update").code == 0
    then = datetime.now(UTC).isoformat()
    draw()
    (agent,) = sampled("reputation", "list", "--format", "json").items()
    assert (agent["eval_count"], agent["total_events"], agent["awaits_review"]) == (7, 7, False)
    (line,) = sampled("reputation", "list").table()
    assert line[:3] == ["claude-code", "default", "2/50"]
    assert " ".join(line).count("awaiting review") == 2  # 30 days ago, reputation
    shown = sampled("reputation", "list", "claude-code").out
    assert "  passed           100% of 2 evaluations" in shown
    assert "  overall          awaiting review" in shown
    assert "signals" not in shown
    (identity,) = sampled("reputation", "list", "--identities").table()
    assert " ".join(identity[1:]) == "claude-code default awaiting review 7 -"
    # A past time is computed without them.
    past = sampled("reputation", "list", "claude-code", "--as-of", then).out
    assert "  rating           2/50, calibrating" in past
    assert "  signals          2 in 90 days, 2 positive, 0 negative" in past
    (identity,) = sampled("reputation", "list", "--identities", "--as-of", then).table()
    assert identity[-2:] == ["2", "0.02"]


def test_an_agent_of_which_all_sessions_are_asked_is_not_called_unknown(program: Program) -> None:
    build_by(program, logged("s", yesterday()))
    assert program("reputation", "update").code == 0
    then = datetime.now(UTC).isoformat()
    draw()
    none = "No rated agents: sessions await review, or are not loaded yet.\n"
    assert program("reputation", "list").out.startswith(none)
    elsewhere = program("reputation", "list", "--organization", "lighthouse").out
    assert elsewhere.startswith("No agent of lighthouse was evaluated yet.")
    past = program("reputation", "list", "--as-of", then).out
    assert past == "No agent had evaluations by then. Sessions awaiting review do not count.\n"
    unrated = "  evaluations      none loaded (sessions awaiting review do not count)\n"
    for asked in ((), ("--as-of", then)):
        assert unrated in program("reputation", "list", "claude-code", *asked).out
    assert "none with this name" in program("reputation", "list", "other").out
    other = program("reputation", "list", "claude-code", "--organization", "lighthouse").out
    assert "none with this name" in other


def test_an_agent_of_which_all_sessions_are_asked_keeps_its_organization(program: Program) -> None:
    build_by(program, logged("s", yesterday(), "acme"))
    draw()
    for asked in ((), ("--as-of", datetime.now(UTC).isoformat())):
        shown = program("reputation", "list", "claude-code", *asked).out
        assert shown.startswith("claude-code of acme\n")
        assert f"identity {identity_id('acme', 'claude-code')}\n" in shown
    elsewhere = program("reputation", "list", "claude-code", "--organization", "default").out
    assert elsewhere.startswith("claude-code of default\n")


def test_an_agent_whose_sessions_are_asked_in_two_organizations_needs_one(program: Program) -> None:
    both = (logged(name, yesterday(), name) for name in ("acme", "beta"))
    build_by(program, b"".join(both))
    draw()
    unclear = program("reputation", "list", "claude-code")
    assert (unclear.code, "claude-code exists in acme, beta: add" in unclear.err) == (2, True)
    one = program("reputation", "list", "claude-code", "--organization", "beta").out
    assert one.startswith("claude-code of beta\n")
    before = (datetime.now(UTC) - timedelta(days=9)).isoformat()
    asked = program("reputation", "list", "claude-code", "--as-of", before)
    assert (asked.code, "none with this name" in asked.out) == (0, True)


def test_a_rated_agent_keeps_its_record_when_a_session_elsewhere_is_asked(program: Program) -> None:
    build_by(program, logged("a", yesterday(), "acme"))
    assert program("reputation", "update").code == 0
    build_by(program, logged("b", yesterday(), "beta"))
    draw()
    shown = json.loads(program("reputation", "list", "claude-code", "--format", "json").out)
    assert (shown["organization_id"], shown["eval_count"]) == ("acme", 1)

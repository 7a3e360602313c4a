"""Overrides: what they are for, when they count, when they are stale, and their import."""

from datetime import datetime

import pytest

from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.sync import sync_profiles
from evaluation_pipelines.scorecards.overrides import (
    HumanVerdict,
    ImportResult,
    OverrideError,
    import_overrides,
    override,
    plain_number,
)
from evaluation_pipelines.scorecards.scorecard_queries import find_target
from evaluation_pipelines.scorecards.store import EventStore, OverrideStore
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.scorecards.calls_profile import (
    DAY,
    PROFILE,
    build,
    cards,
    evaluation,
    work,
)
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import session
from evaluation_pipelines_tests.world.built_before import build_from


def correct(workplace: Workplace, score: float | None, now: datetime = NOW) -> None:
    sync_profiles(workplace.stores, now)
    target = find_target(workplace.stores, SessionName("s1"))
    override(workplace.stores, target, HumanVerdict(score, "Ada", "because"), "person", now)


def test_an_override_counts_with_the_next_build_and_keeps_the_automatic_score(
    scored: Workplace,
) -> None:
    correct(scored, 20)
    assert RebuildQueue(scored.ledger).pending(NOW)[0].session_date == DAY
    assert build(scored)[0].facts["overridden"] == 1

    (card,) = cards(scored)
    assert (card["overall_score"], card["effective_score"]) == (pytest.approx(90), 20)
    assert (card["human_override"]["annotator"], card["scored_at"]) == ("Ada", NOW)
    row = evaluation(scored)
    assert (row["effective_100"], row["effective_source"]) == (20, "override")
    assert row["quality_risk"] is True
    # The new score is low: one feedback event before, a feedback and a risk event now.
    assert len(EventStore(scored.ledger).after(0, 100)) == 3


def test_an_unknown_name_is_an_error(scored: Workplace) -> None:
    sync_profiles(scored.stores, NOW)
    stores = scored.stores

    with pytest.raises(SessionNotFoundError, match="There is no session s9"):
        find_target(stores, SessionName("s9"))
    with pytest.raises(SessionNotFoundError, match="There is no session s1"):
        find_target(stores, SessionName("s1", organization="other"))
    with pytest.raises(ProfileError, match="There is no profile nope"):
        find_target(stores, SessionName("s1", profile="nope"))
    with pytest.raises(ProfileError, match="incident-llm does not score s1, whose label is simple"):
        find_target(stores, SessionName("s1", profile="incident-llm"))


def test_without_a_matching_profile_an_override_is_an_error(workplace: Workplace) -> None:
    off = PROFILE.format(version=2, worst=9, label="'*'", more="enabled: false")
    folder = workplace.settings.profiles_dir
    folder.mkdir(parents=True)
    (folder / "g.yaml").write_text(off.replace("id: calls", "id: general-performance"))
    workplace.land("logs.jsonl", work(label="research"))
    build(workplace)

    row = evaluation(workplace)
    assert (row["profile_id"], row["reason"]) == (None, "no profile matches its label")
    sync_profiles(workplace.stores, NOW)
    with pytest.raises(ProfileError, match="no profile matches s1, whose label is research"):
        find_target(workplace.stores, SessionName("s1"))


HEADING = "session,score,annotator,reason,profile\n"


@pytest.fixture
def two_sessions(workplace: Workplace) -> Workplace:
    build_from(workplace, session("s1") + session("s2", 60))
    return workplace


def import_rows(workplace: Workplace, *rows: str, skip_bad: bool = False) -> ImportResult:
    lines = [HEADING, *(f"{row}\n" for row in rows)]
    return import_overrides(workplace.stores, lines, NOW, skip_bad=skip_bad)


def scores(workplace: Workplace) -> list[float]:
    found: list[float] = OverrideStore(workplace.ledger).of_dates()["override_score"].to_list()
    return found


def test_good_rows_are_stored_as_imported(two_sessions: Workplace) -> None:
    done = import_rows(two_sessions, 's1,20,Ada,"wrong, and late",', "s2#baseline-1,80.5,Bo,fine,")

    assert done == ImportResult(2, 0, ())
    rows = (
        OverrideStore(two_sessions.ledger).of_dates().select("override_score", "reason", "source")
    )
    assert rows.rows() == [(20, "wrong, and late", "import"), (80.5, "fine", "import")]


BAD = {
    "s9,20,Ada,x,": "There is no session s9",
    "s1,many,Ada,x,": "score 'many' is not a number",
    "s1,,Ada,x,": "score '' is not a number",
    "s1,nan,Ada,x,": "score 'nan' is not a number",
    "s1,1_0,Ada,x,": "score '1_0' is not a number",
    "s1,\uff17,Ada,x,": "is not a number",  # a fullwidth 7
    "s1,101,Ada,x,": "score 101 is not on the scale",
    "s1,20,,x,": "annotator is empty",
    "s1,20,Ada, ,": "reason is empty",
    "s1,20,Ada,x,nope": "There is no profile nope",
    "s1,20,Ada,x,,more": "the row has more cells than the heading",
    "s1,20": "annotator is empty",
    f"s1,20,Ada,{'x' * 4001},": "reason has 4001 characters, the maximum is 4000",
}


def test_every_bad_row_is_listed_with_its_line_and_nothing_is_stored(
    two_sessions: Workplace,
) -> None:
    done = import_rows(two_sessions, "s2,80,Ada,good,", *BAD)

    assert (done.stored, done.known) == (0, 0)
    assert [number for number, _ in done.bad] == list(range(3, 3 + len(BAD)))
    for (_, message), expected in zip(done.bad, BAD.values(), strict=True):
        assert expected in message
    assert scores(two_sessions) == []
    assert RebuildQueue(two_sessions.ledger).pending(NOW) == []


def test_a_row_that_repeats_the_current_override_is_not_stored_again(
    two_sessions: Workplace,
) -> None:
    import_rows(two_sessions, "s1,20,Ada,x,", "s1,20,Ada,x,")
    assert scores(two_sessions) == [20]

    assert import_rows(two_sessions, "s1,20,Ada,x,", "s2,80,Ada,y,") == ImportResult(1, 1, ())
    import_rows(two_sessions, "s1,30,Ada,x,")
    assert import_rows(two_sessions, "s1,20,Ada,x,").stored == 1  # repeated after another score
    assert scores(two_sessions) == [20, 80, 30, 20]


@pytest.mark.parametrize(
    ("heading", "row", "problem"),
    [
        *(
            (heading, "s1,20,Ada,x\n", "the heading lacks")
            for heading in ("", "session,score\n", "Session,score,annotator,reason\n")
        ),
        *(
            (
                f"session,score,annotator,reason,{twice}\n",
                "s1,20,Ada,x,30\n",
                f"the heading has {name} more than once",
            )
            for twice, name in (("score", "score"), ("profile,profile", "profile"))
        ),
        (HEADING, 's1,20,"Ada"x,y,\n', r"line \d is not CSV"),
    ],
)
def test_a_file_without_its_heading_or_another_one_is_refused(
    two_sessions: Workplace, heading: str, row: str, problem: str
) -> None:
    with pytest.raises(OverrideError, match=problem):
        import_overrides(two_sessions.stores, [heading, row], NOW)
    assert scores(two_sessions) == []


def test_columns_that_are_not_read_may_have_any_names(two_sessions: Workplace) -> None:
    lines = ["session,score,annotator,reason,,,note,note\n", "s1,20,Ada,x,,,one,two\n"]

    assert import_overrides(two_sessions.stores, lines, NOW) == ImportResult(1, 0, ())


def test_other_organizations_profiles_and_a_criterion_can_be_named(
    two_sessions: Workplace,
) -> None:
    heading = "organization,profile,session,score,annotator,reason,criterion\n"
    wrong = ("performance.composite", "")
    same = [f"default,general-performance,s1,20,Ada,x,{name}\n" for name in wrong]
    lines = [heading, *same, "other,,s1,20,Ada,x,\n"]
    done = import_overrides(two_sessions.stores, lines, NOW, skip_bad=True)

    assert done.stored == 2
    assert "There is no session s1" in done.bad[0][1]
    stored = OverrideStore(two_sessions.ledger).of_dates()
    assert stored["criterion_id"].to_list() == ["performance.composite", None]
    # The current one names none.
    assert import_overrides(two_sessions.stores, lines[:2], NOW).stored == 1


@pytest.mark.parametrize(
    ("text", "value"), [("7", 7.0), ("07.50", 7.5), ("+1.", 1.0), (".5", 0.5), ("-3", -3.0)]
)
def test_plain_numbers(text: str, value: float) -> None:
    assert plain_number(text) == value


@pytest.mark.parametrize("text", ["", ".", "1e1", "inf", "0x1", "1,5", "7 ", "7\n", "\u0667"])
def test_what_is_no_plain_number(text: str) -> None:
    with pytest.raises(ValueError, match="is not a plain decimal number"):
        plain_number(text)

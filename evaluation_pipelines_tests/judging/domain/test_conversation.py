"""A conversation changes only by replies and ends with a judgment or a reason."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.conversation import (
    Conversation,
    FailedConversation,
)
from evaluation_pipelines.judging.domain.prompt.messages import Message, Reply
from evaluation_pipelines_tests.judging.domain.judging_builders import (
    CRITERIA,
    PROMPTS,
    conversation,
    form,
    judgment,
    said,
    texts,
    turns,
)

ALONE = form(10, 10, 10, 10, analysis="")
"""Answer to a reminder; the total is 40."""


def test_score_turn_then_missing_tools_in_the_same_context() -> None:
    dialog = conversation()
    assert turns(dialog) == ["score-1"]
    assert dialog.outcome() is None
    assert texts(dialog) == [PROMPTS.score]

    dialog = dialog.with_reply("score-1", said(form()))
    assert turns(dialog) == ["missing-tools"]
    assert dialog.outcome() is None
    (request,) = dialog.open_requests()
    assert request.messages == (
        Message("user", PROMPTS.score),
        Message("assistant", form()),
        Message("user", PROMPTS.missing_tools),
    )

    dialog = dialog.with_reply("missing-tools", said("1. git log: shows when it broke.\n"))
    assert dialog.open_requests() == ()
    result = judgment(dialog)
    assert result.verdict.total == 57
    assert (result.sample_totals, result.spread, result.sample_errors) == ((57,), None, ())
    assert result.missing_tools == "1. git log: shows when it broke."
    assert result.missing_tools_error is None


def test_one_reminder_follows_in_the_same_context_and_keeps_the_analysis() -> None:
    first = "A long analysis.\nfailure tags: wrong_conclusion\n57"
    dialog = conversation().with_reply("score-1", said(first))
    assert turns(dialog) == ["score-1-reminder"]
    prompt, answer, reminder = texts(dialog)
    assert (prompt, answer) == (PROMPTS.score, first)
    assert "there is no line `logical_flow: <points>/25`" in reminder
    assert reminder.endswith("tool_relevance: <points>/25\nsynthesis_quality: <points>/25")

    dialog = dialog.with_reply("score-1-reminder", said(ALONE))
    assert turns(dialog) == ["missing-tools"]
    assert texts(dialog) == [prompt, answer, reminder, ALONE, PROMPTS.missing_tools]

    verdict = judgment(dialog.with_reply("missing-tools", said("None."))).verdict
    assert verdict.total == 40
    assert verdict.failure_tags == ()
    assert verdict.analysis == "A long analysis.\nfailure tags: wrong_conclusion"


def test_instructions_stand_in_a_system_message_before_every_turn() -> None:
    prompts = replace(PROMPTS, system="You judge.")
    dialog = Conversation(prompts, CRITERIA, 1).with_reply("score-1", said(form()))

    (request,) = dialog.open_requests()
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "user"]
    assert request.messages[0].content == "You judge."


@pytest.mark.parametrize(
    ("reply", "reason", "retriable"),
    [
        (Reply(form(), "error"), "the endpoint gave up within the judge's answer (error)", True),
        (Reply(form(), "SAFETY"), "the judge refused (SAFETY)", False),
        (Reply(form(), "content_filter"), "the judge refused (content_filter)", False),
        (Reply(form(), "refusal"), "the judge refused (refusal)", False),
        (Reply(" \n", "stop"), "the judge's answer was empty", True),
    ],
)
@pytest.mark.parametrize("reminded", [False, True])
def test_a_broken_refused_or_empty_answer_fails(
    reply: Reply, reason: str, *, retriable: bool, reminded: bool
) -> None:
    dialog = conversation()
    if reminded:
        dialog = dialog.with_reply("score-1", said("no form"))
    dialog = dialog.with_reply("score-1-reminder" if reminded else "score-1", reply)

    result = dialog.outcome()

    assert isinstance(result, FailedConversation)
    assert result.reason.startswith(reason)
    assert result.retriable is retriable
    assert dialog.open_requests() == ()


CUT = "the judge's answer was cut by the token limit. Raise EVAL_JUDGE_MAX_OUTPUT_TOKENS"
EMPTY = "the judge's answer was empty"
NO_TOTAL = "the last line does not hold a whole number from 0 to 100 alone"
NO_VERDICT = f"no verdict, even after a reminder: {NO_TOTAL}"
THREE = form().replace("consistency: 16/25", "")


@pytest.mark.parametrize(
    ("first", "second", "total", "points"),
    [
        (said(form(total="The score is 57.")), said("57"), 57, [15, 16, 14, 12]),
        (said("logical_flow: 25\n<total>"), said("100"), 100, [None] * 4),
        # A total completes the score, whatever the reminder brings.
        (said(THREE), said(""), 57, [15, None, 14, 12]),
        (said(THREE), said("consistency: 16/25", "length"), 57, [15, None, 14, 12]),
        (said(THREE), said("no", "content_filter"), 57, [15, None, 14, 12]),
        (said("no form"), said(f"Sorry for that.\n{ALONE}"), 40, [10] * 4),  # no refusal
        # A cut answer counts for nothing, whatever it says: the short one has no criteria.
        (said(form(), "length"), said("Short.\n40"), 40, [None] * 4),
    ],
)
def test_two_answers_have_the_verdict_of_what_is_whole_in_them(
    first: Reply, second: Reply, total: int, points: list[int | None]
) -> None:
    dialog = conversation().with_reply("score-1", first).with_reply("score-1-reminder", second)

    verdict = judgment(dialog.with_reply("missing-tools", said("None."))).verdict
    assert (verdict.total, [*verdict.criteria.values()]) == (total, points)
    assert verdict.incomplete_criteria is (None in points)


@pytest.mark.parametrize(
    ("first", "second", "reason", "retriable"),
    [
        (said("Good work, 90/100"), said("I said 90/100"), NO_VERDICT, True),
        (said(form(), "length"), said(form(), "length"), CUT, True),
        (said(form(), "length"), said(""), EMPTY, True),
        (said(form(), "length"), said("Good."),
         f"{CUT}. A short answer has no verdict: {NO_TOTAL}", True),
        (said("no form"), said(form(), "length"), CUT, True),
        (said("I\u2019m sorry, but I can't assist."), said("Sorry, I will not rate this."),
         "the judge refused: ", False),
        # One refusal in words of two answers may be a whim.
        (said("Sorry, I will not."), said("No form."), NO_VERDICT, True),
        (said("No form."), said("Sorry, I will not."), NO_VERDICT, True),
    ],
)  # fmt: skip
def test_two_answers_without_a_verdict_fail_with_the_reason(
    first: Reply, second: Reply, reason: str, *, retriable: bool
) -> None:
    dialog = conversation().with_reply("score-1", first).with_reply("score-1-reminder", second)

    found = dialog.outcome()
    assert isinstance(found, FailedConversation)
    assert found.reason == reason or found.reason.startswith("the judge refused: ") is not retriable
    assert found.retriable is retriable
    assert dialog.open_requests() == ()
    assert [reply for _, reply in dialog.replies] == [first, second]


@pytest.mark.parametrize(
    ("first", "asked"),
    [
        # Only the total is missing, or all of the form.
        (form(total="The score is 57."), "one whole number from 0 to 100, and nothing else."),
        ("logical_flow: 25\n<total>", "one whole number from 0 to 100, and nothing else."),
        (THREE, "consistency: <points>/25"),
    ],
)
def test_a_reminder_asks_for_what_is_missing(first: str, asked: str) -> None:
    reminder = texts(conversation().with_reply("score-1", said(first)))[-1]

    assert reminder.endswith(asked)
    assert ("<points>" in reminder) is ("<points>" in asked)
    assert ("\n\n" in reminder) is ("<points>" in asked)


REFUSED = "the judge refused to answer"


@pytest.mark.parametrize(
    ("answer", "kept", "error"),
    [
        (said("I'm sorry, I cannot do that."), None, REFUSED),
        (said("I can't see anything wrong. No tool was missing."), "I can't see", None),
        (said("1. git", "length"), None, ""),
        (said("1. git", "content_filter"), None, ""),
        ("the endpoint answered 500 three times", None, "the endpoint answered 500 three times"),
    ],
)
def test_whatever_the_second_question_brings_the_score_is_kept(
    answer: Reply | str, kept: str | None, error: str | None
) -> None:
    dialog = conversation().with_reply("score-1", said(form()))
    if isinstance(answer, str):
        dialog = dialog.with_missing_tools_failed(answer)
    else:
        dialog = dialog.with_reply("missing-tools", answer)

    assert dialog.open_requests() == ()
    result = judgment(dialog)
    assert result.verdict.total == 57
    assert (result.missing_tools or "").startswith(kept or "")
    assert (result.missing_tools is None) is (kept is None)
    assert result.missing_tools_error == error or (error == "" and result.missing_tools_error)
    with pytest.raises(ValueError, match="not open"):
        dialog.with_missing_tools_failed("again")


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS"])
def test_after_a_cut_answer_a_short_one_is_asked_for_without_the_cut_text(reason: str) -> None:
    prompts = replace(PROMPTS, system="You judge.")
    dialog = Conversation(prompts, CRITERIA, 1).with_reply("score-1", Reply("Loop. " * 9, reason))

    assert dialog.outcome() is None
    (request,) = dialog.open_requests()
    assert (request.turn, [message.role for message in request.messages]) == (
        "score-1-reminder",
        ["system", "user"],
    )
    asked = request.messages[-1].content
    assert asked.startswith(f"{PROMPTS.score}\n\n")  # caches of the endpoint find the prompt
    assert "at most 100 words" in asked
    dialog = dialog.with_reply("score-1-reminder", said(form(total=57, analysis="Short.")))
    (question,) = dialog.open_requests()
    assert [message.role for message in question.messages] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    verdict = judgment(dialog.with_reply("missing-tools", said("None."))).verdict
    assert (verdict.total, verdict.analysis.split("\n")[0]) == (57, "Short.")
    assert (verdict.short_analysis, verdict.numbers_from_reminder) == (True, False)


def test_a_turn_that_is_not_open_has_no_reply() -> None:
    begun = conversation()
    scored = begun.with_reply("score-1", said(form()))
    done = scored.with_reply("missing-tools", said("None."))
    for dialog, turn, opened in (
        *(
            (begun, turn_name, "score-1")
            for turn_name in ("score-2", "score-1-reminder", "missing-tools", "")
        ),
        (scored, "score-1", "missing-tools"),
        (done, "missing-tools", "none"),
    ):
        with pytest.raises(ValueError, match=rf"is not open\. Open turns: {opened}"):
            dialog.with_reply(turn, said(form()))
    with pytest.raises(ValueError, match="not open"):
        begun.with_missing_tools_failed("too early")
    with pytest.raises(ValueError, match="at least 1, not 0"):
        conversation(samples=0)


REPLIES = st.builds(
    Reply,
    st.sampled_from([form(), form(total=20), ALONE, "no form", "", "Sorry, no."]),
    st.sampled_from(["stop", "length", "content_filter"]),
)


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 9), REPLIES), min_size=12, max_size=12))
def test_every_conversation_ends_and_its_log_restores_its_state(
    samples: int, answers: list[tuple[int, Reply]]
) -> None:
    dialog = conversation(samples)
    for choice, reply in answers:
        asked = dialog.open_requests()
        if asked:
            assert dialog.outcome() is None
            dialog = dialog.with_reply(asked[choice % len(asked)].turn, reply)

    # A score turn and a reminder each, and one question: at most 4 * 2 + 1 = 9 turns.
    assert dialog.outcome() is not None
    replayed = Conversation(PROMPTS, CRITERIA, samples)
    for turn, reply in dialog.replies:
        replayed = replayed.with_reply(turn, reply)
    assert replayed == dialog
    assert replayed.outcome() == dialog.outcome()


@pytest.mark.parametrize(
    ("totals", "kept", "spread"),
    [
        # Mean 59; (4 + 361 + 441) / 2 = 403; the square root is 20.07.
        *((totals, 57, 20.0749) for totals in ((57, 40, 80), (80, 57, 40), (40, 80, 57))),
        # The lower of two: mean 57.5; (6.25 + 6.25) / 1 = 12.5; the square root is 3.5355.
        ((60, 55), 55, 3.5355),
    ],
)
def test_the_lower_median_of_the_samples_is_kept(
    totals: tuple[int, ...], kept: int, spread: float
) -> None:
    dialog = conversation(samples=len(totals))
    assert turns(dialog) == [f"score-{number}" for number, _ in enumerate(totals, start=1)]
    for number, total in enumerate(totals, start=1):
        dialog = dialog.with_reply(f"score-{number}", said(form(total=total, analysis=f"A{total}")))
    assert texts(dialog)[1].startswith(f"A{kept}")

    result = judgment(dialog.with_reply("missing-tools", said("None.")))
    assert (result.verdict.total, result.verdict.analysis[:3]) == (kept, f"A{kept}")
    assert result.sample_totals == totals
    assert result.spread == pytest.approx(spread, abs=1e-4)


def test_the_first_of_equal_samples_is_kept() -> None:
    dialog = conversation(samples=2).with_reply("score-2", said(form(analysis="second")))
    assert texts(dialog.with_reply("score-1", said(form(analysis="first"))))[1].startswith("first")


def test_a_failed_sample_is_reported_and_the_others_count() -> None:
    dialog = conversation(samples=3).with_reply("score-2", Reply(form(), "length"))
    dialog = dialog.with_reply("score-3", said("no form"))
    # score turns come first
    assert turns(dialog) == ["score-1", "score-2-reminder", "score-3-reminder"]
    dialog = dialog.with_reply("score-2-reminder", Reply(form(), "length"))
    dialog = dialog.with_reply("score-3-reminder", said("no form"))
    dialog = dialog.with_reply("score-1", said(form()))

    result = judgment(dialog.with_reply("missing-tools", said("None.")))

    assert (result.sample_totals, result.spread) == ((57,), None)
    assert [reason.split(". ")[0] for reason in result.sample_errors] == [
        "the judge's answer was cut by the token limit",
        (
            "no verdict, even after a reminder: the last line does not hold a whole number "
            "from 0 to 100 alone"
        ),
    ]


def test_if_all_samples_fail_each_reason_is_given_once() -> None:
    dialog = conversation(samples=3)
    for number in (1, 2):
        dialog = dialog.with_reply(f"score-{number}", Reply("", "content_filter"))
    assert dialog.outcome() is None
    dialog = dialog.with_reply("score-3", Reply("", "stop"))

    assert dialog.outcome() == FailedConversation(
        "the judge refused (content_filter); the judge's answer was empty", retriable=True
    )

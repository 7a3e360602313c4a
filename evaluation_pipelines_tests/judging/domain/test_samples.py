"""Several samples of a score: which one is kept, and what is said of those that failed."""

import pytest

from evaluation_pipelines.judging.domain.conversation import FailedConversation
from evaluation_pipelines.judging.domain.prompt.messages import Reply
from evaluation_pipelines_tests.judging.domain.judging_builders import (
    conversation,
    form,
    judgment,
    said,
    texts,
    turns,
)


@pytest.mark.parametrize("totals", [(57, 40, 80), (80, 57, 40), (40, 80, 57)])
def test_the_lower_median_of_the_samples_is_kept(totals: tuple[int, ...]) -> None:
    dialog = conversation(samples=3)
    assert turns(dialog) == ["score-1", "score-2", "score-3"]
    for number, total in enumerate(totals, start=1):
        dialog = dialog.with_reply(f"score-{number}", said(form(total=total, analysis=f"A{total}")))
    assert texts(dialog)[1].startswith("A57")

    result = judgment(dialog.with_reply("missing-tools", said("None.")))

    assert result.verdict.total == 57
    assert result.verdict.analysis.startswith("A57")
    assert result.sample_totals == totals
    # Mean 59; (4 + 361 + 441) / 2 = 403; the square root is 20.07.
    assert result.spread == pytest.approx(20.0749, abs=1e-4)


def test_the_lower_of_two_samples_and_the_first_of_equal_ones_is_kept() -> None:
    two = conversation(samples=2)
    lower = two.with_reply("score-1", said(form(total=60))).with_reply(
        "score-2", said(form(total=55, analysis="lower"))
    )
    assert texts(lower)[1].startswith("lower")
    # Mean 57.5; (6.25 + 6.25) / 1 = 12.5; the square root is 3.5355.
    spread = judgment(lower.with_reply("missing-tools", said("None."))).spread
    assert spread == pytest.approx(3.5355, abs=1e-4)

    equal = two.with_reply("score-2", said(form(analysis="second"))).with_reply(
        "score-1", said(form(analysis="first"))
    )
    assert texts(equal)[1].startswith("first")


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
    assert [reason.split(";")[0] for reason in result.sample_errors] == [
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

"""What the page of the judge says of its state and its cost."""

from evaluation_pipelines.judging.domain.scorings_of_day import ScoringsOfDay
from evaluation_pipelines.service.pages.domain.judge_status import day_of_judge, state_of_judge


def test_the_state_says_what_is_in_the_way() -> None:
    assert state_of_judge(None, "no judge is configured", None)[0] == "No model judges"
    assert state_of_judge("m", None, "connection refused") == (
        "It does not answer",
        "Connection refused. What is due is judged when it answers again.",
    )
    assert state_of_judge("m", None, None)[1].startswith("m is set up")


def test_the_day_has_its_cost_and_limit() -> None:
    some = ScoringsOfDay(3, 1, 2, 0.5, 1, ("large", "small"))
    assert day_of_judge(some, 2.0) == (
        "Today (UTC): 3 scored by large, small, 1 failed, 2 requested or in progress, "
        "cost $0.50 (unknown for 1) of at most $2.00 a day."
    )
    none = ScoringsOfDay(0, 0, 0, 0.0, 0)
    assert day_of_judge(none, None) == "Today (UTC): 0 scored, 0 failed, cost $0.00."

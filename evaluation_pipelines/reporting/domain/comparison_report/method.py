"""Method of the report, in sentences."""

from evaluation_pipelines.comparison.domain.differences import MIN_PEOPLE
from evaluation_pipelines.comparison.domain.regressions import ALERT_POINTS
from evaluation_pipelines.comparison.domain.verdicts import RELEVANT_POINTS
from evaluation_pipelines.numerics.skewed import SMALLEST_SURE


def method_lines(min_runs: int, margin: float) -> list[str]:
    """Return one or two sentences for each method."""
    return [
        (
            "A session here is one session window with a score. It is compared only with others of "
            "the same label that have comparable scores: the same profile version and source."
        ),
        (
            f"A model needs {min_runs} sessions to be ranked. Its rank is one more than the number "
            "of models shown to be better, so models without a verdict share a rank."
        ),
        (
            "Intervals are 95%. Each person counts once, because one person's many sessions say "
            "little about others: a mean score is the mean of each person's mean. Shares and costs "
            "are those of all sessions. Human scores and the mean with them (avgScore in the API) "
            "are below the mean. Intervals of differences are corrected for all pairs of this "
            "report, so one excludes 0 exactly if the difference is shown."
        ),
        (
            f"If at least {MIN_PEOPLE} people used both models, each person is compared with "
            "themselves. Otherwise the people of both models are compared. Fewer than "
            f"{MIN_PEOPLE} people on a side give no verdict, but three or four who all used both "
            "give an indication. What different people have in common on the same day widens the "
            "interval. A verdict needs a week in which both models were used."
        ),
        (
            "A verdict compares the same task mix: within task classes, weighted by the classes of "
            "both models together. At most 5% of reports have any false verdict on quality. Half "
            "of it is for a model that beats every other, half for all pairs."
        ),
        (
            "Best value: the cheapest model shown to be less than "
            f"{margin:g} points below every other one (one-sided, from the same differences). At "
            "most 5% of reports name a wrong one, shared by Holm's method over all models that "
            "cost less than another."
        ),
        (
            "If scores are near 100 and few sessions fail, failures and other sessions are tested "
            "separately, because a handful of failures decides the mean."
        ),
        (
            "A session that failed before any tool call counts as 0. Disqualified sessions are in "
            "no average, and a model that is disqualified more often is not called better. Costs "
            "are compared for the same tasks by geometric means. A mean cost of fewer than "
            f"{SMALLEST_SURE} sessions is rough."
        ),
        (
            "The 5% hold if you look once. If you look every night and stop at the first verdict, "
            "you are wrong more often."
        ),
        (
            "p: how often chance alone gives such a difference, corrected for all pairs. Sessions "
            f"needed: with this many of each model, 4 of 5 comparisons show a difference of "
            f"{RELEVANT_POINTS:g} points."
        ),
        "Frontier: no ranked model has both a lower mean cost and a higher mean score.",
        (
            f"Alert: the last 1 to 4 weeks are at least {ALERT_POINTS:g} points below what the "
            "previous 90 days predict for the same tasks and people. About 5% of quarters have a "
            "false alert, however often you look."
        ),
        (
            "These are observations, not an experiment: people choose a model for a task. "
            "Differences beyond the task class are not controlled for, such as how hard a task is "
            "or which model a judge favors."
        ),
    ]

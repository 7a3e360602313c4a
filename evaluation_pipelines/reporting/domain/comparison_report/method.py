"""Explanation of the figures in the report."""

from evaluation_pipelines.comparison.domain.differences import MIN_PEOPLE
from evaluation_pipelines.comparison.domain.effects import RELEVANT_POINTS
from evaluation_pipelines.comparison.domain.regression.rows import ALERT_POINTS
from evaluation_pipelines.numerics.skewed import SMALLEST_SURE


def method_lines(min_runs: int, margin: float) -> list[str]:
    """Return one or two sentences for each method."""
    return [
        (
            "A session here is one session window with a score, 0 to 100. It is compared only with "
            "others of the same label that were scored alike: by the same version of the same "
            "judge profile, and from the same source."
        ),
        (
            f"A model is ranked from {min_runs} sessions on. Its rank is one more than the number "
            "of models that are shown to be better: models between which nothing is decided "
            "share it."
        ),
        (
            "Behind every figure stands its 95% interval. Each person counts once, however many "
            "sessions they have: one who has many says no more about other people than one who has "
            "few. So a mean score is the mean of people's means; shares, costs, tokens and "
            "times are those of all sessions. Where people corrected scores, the mean of all "
            "sessions alike, with their scores, stands below it (avgScore of the API). "
            "Intervals of pairs are corrected for all pairs of this report, like the verdicts: "
            "that of a difference excludes 0 exactly where it is shown."
        ),
        (
            f"From {MIN_PEOPLE} people on who used both models, each person is compared with "
            "themselves; otherwise the people of both models are compared. With fewer than "
            f"{MIN_PEOPLE} people on a side nothing is decided; three or four who all used both "
            "give an indication. What different people have in common on the same day widens the "
            "interval. A verdict takes a week in which both were used."
        ),
        (
            "A verdict compares the same mix of tasks: within task classes, weighted by the "
            "classes of both models together. The chance of any false verdict on quality in this "
            "report is at most 5%: half of it is for a model that beats every other, half for all "
            "pairs."
        ),
        (
            "For the money: the cheapest model that is shown to score less than "
            f"{margin:g} points below every other one, by the lower ends of the same differences "
            "(one-sided). The chance that any model in this report is called so wrongly is at most "
            "5%, shared by Holm's method over all models that cost less than another."
        ),
        (
            "Where scores are near 100 and few sessions fail, failures and the others are judged "
            "apart, since a handful of failures decides the mean."
        ),
        (
            "A session that failed before any tool call counts as 0. Disqualified sessions are in "
            "no average; a model that is disqualified more often is not called better. Costs are "
            "compared for the same tasks by their geometric means; a mean cost from fewer than "
            f"{SMALLEST_SURE} sessions is rough."
        ),
        (
            "The 5% of these verdicts hold for looking once. Whoever looks every night, and stops "
            "at the first verdict, is wrong more often."
        ),
        (
            f"Sessions that settle it: this number of sessions of each model shows a difference of "
            f"{RELEVANT_POINTS:g} points in 4 of 5 comparisons."
        ),
        (
            "Counterparts: the share of sessions in weeks and kinds of task in which the other "
            "model was used as well. p (Holm): how often chance alone gives such a difference, "
            "corrected for all pairs. Hedges g: the difference in standard deviations."
        ),
        "A beats B: the probability that a random session of A scores higher than one of B.",
        "Frontier: no ranked model has both a lower mean cost and a higher mean score.",
        (
            "Alert: the last one to four weeks are lower than up to 90 days before let expect for "
            f"the same tasks and people, by at least {ALERT_POINTS:g} points. However often one "
            "looks, the chance of a false alert about any model is about 5% in a quarter."
        ),
        (
            "These are observations, not an experiment: people choose a model for a task. What "
            "differs beyond the task class (how hard a task is, whom a judge favors) is not taken "
            "out."
        ),
    ]

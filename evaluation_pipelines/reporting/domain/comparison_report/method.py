"""Explanation of the figures in the report."""

from evaluation_pipelines.comparison.domain.effects import RELEVANT_POINTS
from evaluation_pipelines.comparison.domain.regression import ALERT_POINTS, SMALLEST_SIDE


def method_lines(min_runs: int) -> list[str]:
    """Return one or two sentences for each method."""
    return [
        (
            "A run is one session window with an effective score, 0 to 100. Runs are compared only "
            "with runs of the same label that were scored alike: by the same version of the same "
            "judge profile, and from the same source."
        ),
        (
            f"A model is ranked from {min_runs} runs on. Its rank is one more than the number of "
            "models that are shown to be better: models between which nothing is decided share it."
        ),
        (
            "Behind every figure stands its 95 % interval: Student's t for means, Wilson's for "
            "shares, a bias-corrected and accelerated bootstrap for points per dollar."
        ),
        (
            "With at least 10 users (else agents) on each side, all runs of one of them count as "
            "alike: errors are a jackknife over users, and p-values come from the same errors."
        ),
        (
            "A verdict compares within task classes, weighted by the classes of both models "
            "together, and is corrected by Holm's method for all pairs of the label. It is given "
            "where the corrected p-value is below 0.05."
        ),
        (
            f"Runs that settle it: this number of runs of each model shows a difference of "
            f"{RELEVANT_POINTS:g} points in 4 of 5 comparisons."
        ),
        "A beats B: the probability that a random run of A scores higher than one of B.",
        "Frontier: no ranked model has both a lower mean cost and a higher mean score.",
        (
            f"Alert: the last 7 days are lower than the 28 before by at least {ALERT_POINTS:g} "
            f"points, with {SMALLEST_SIDE} runs on each side, and chance is ruled out as above."
        ),
        (
            "These are observations, not an experiment: people choose a model for a task. What "
            "differs beyond the task class (who works, on what) is not taken out."
        ),
    ]

"""Tables of reports: comparisons of models, masque lift, books."""

import polars as pl

from evaluation_pipelines.schemas.scorecards import SESSION_EVALUATIONS
from evaluation_pipelines.schemas.sessions import AGENT_SESSIONS
from evaluation_pipelines.schemas.table import (
    BLIND,
    SPAN,
    UTC_TIME,
    WINDOW,
    Column,
    Table,
    columns,
    ends,
    estimate,
)

_GROUP = (
    ("classification_label", pl.String, "label of the sessions"),
    ("profile_id", pl.String, "judge profile, null if none took part in the score"),
    ("profile_version", pl.Int64, "its version, never two of them in one row"),
    ("effective_source", pl.String, "source of the scores, never two of them in one row"),
)
_MODEL = ("model", "provider", "model_variant")
_VARIANT = "unusual options it ran with, one variant per row"
_PAIR = tuple(f"{name}_{side}" for side in "ab" for name in _MODEL)
_SPAN = (
    ("since", UTC_TIME, "sessions that started then or later"),
    ("until", UTC_TIME, "and before this"),
    ("computed_at", UTC_TIME, "when the comparison was made"),
)
_LOW_HOLM = "lower end, corrected for all tested pairs: excludes 0 if it is decided"

MODEL_COMPARISON = Table(
    name="model_comparison",
    grain="one row per label, judge profile version, source of the scores, model and variant",
    key=(*(name for name, *_ in _GROUP), *_MODEL),
    columns=columns(
        *_GROUP,
        ("model", pl.String, "model, 'mixed' if none has 80% of the output, null if unknown"),
        ("provider", pl.String, "provider of the model"),
        ("model_variant", pl.String, _VARIANT),
        ("state", pl.String, "ranked, insufficient (too few runs), mixed or unknown model"),
        ("rank", pl.Int64, "1 + models shown to be better, null unless ranked, by five people"),
        ("on_frontier", pl.Boolean, "no ranked model is both cheaper and better, null if unknown"),
        ("runs", pl.Int64, "sessions in the averages: not the disqualified ones"),
        (
            "zero_cost_runs",
            pl.Int64,
            "runs known to cost nothing that did not fail at the start",
        ),
        ("failed_at_start", pl.Int64, "runs that failed before any tool call: they count as 0"),
        ("disqualified", pl.Int64, "sessions with a disqualifier, in no average"),
        ("people_runs", pl.Int64, "sessions that people scored. They stay in the row"),
        ("people_score", pl.Float64, "mean of their scores, 0-100, null without any"),
        (
            "avg_effective_score",
            pl.Float64,
            "mean effective score, people's first, equal weight per run, 0-100",
        ),
        *estimate("avg_score", "mean of people's mean scores without overrides, 0-100"),
        ("judge_models", pl.String, "models that judged them, with commas, null without a judge"),
        ("flagged_runs", pl.Int64, "sessions whose judgment has a flag"),
        ("score_sd", pl.Float64, "standard deviation of the scores"),
        *estimate("pass_rate", "share of the runs with a score of 50 or more, whatever the status"),
        *estimate("avg_cost_usd", "mean cost of the runs whose cost is known"),
        ("cost_coverage", pl.Float64, "share of the runs whose cost is known"),
        *estimate("score_per_dollar", "avg_score / avg_cost_usd, null under 80% coverage"),
        (
            "relative_cost",
            pl.Float64,
            "cost over that of the cheapest model that costs anything, geometric means. 0: free",
        ),
        ("margin", pl.Float64, "points that count as not worse"),
        ("not_worse_p", pl.Float64, "one-sided p-value: less than the margin below every model"),
        ("not_worse_p_holm", pl.Float64, "the same, corrected for all cheaper models"),
        ("is_not_worse", pl.Boolean, "that is shown, null if not tested"),
        ("not_worse_reason", pl.String, "why it is not tested, null if it is"),
        ("more_runs", pl.Int64, "further runs that show it in 4 of 5 cases if it is as good"),
        ("people_needed", pl.Int64, "or people, where more runs would not, null if it is shown"),
        ("is_best_value", pl.Boolean, "the cheapest model shown to be not worse"),
        *estimate("avg_tokens", "mean total tokens of the runs whose tokens are known"),
        *estimate("avg_duration_ms", "mean active time"),
        ("clustered_by", pl.String, "person, or session and day if people are unknown"),
        ("clusters", pl.Int64, "how many of them there are"),
        *estimate("corrected_score", "mean score if people had scored all these runs, 0-100"),
        ("corrected_score_lowest", pl.Float64, "lower end if people gave 0 to all unanswered"),
        ("corrected_score_highest", pl.Float64, "upper end if people gave 100 to all unanswered"),
        ("naive_score", pl.Float64, "without the correction: mean automatic score of all runs"),
        ("audited", pl.Int64, "sessions drawn with known probabilities that people scored"),
        ("unanswered", pl.Int64, "sessions drawn with known probabilities without an answer"),
        ("correction_reason", pl.String, "why there is no corrected score"),
        *_SPAN,
    ),
)

MODEL_COMPARISON_PAIRS = Table(
    name="model_comparison_pairs",
    grain="one row per pair of comparable models within a label. A comes first in the alphabet",
    key=(*(name for name, *_ in _GROUP), *_PAIR),
    columns=columns(
        *_GROUP,
        ("model_a", pl.String, "first model"),
        ("provider_a", pl.String, "its provider"),
        ("model_variant_a", pl.String, "its variant"),
        ("model_b", pl.String, "second model"),
        ("provider_b", pl.String, "its provider"),
        ("model_variant_b", pl.String, "its variant"),
        ("runs_a", pl.Int64, "runs of the first"),
        ("runs_b", pl.Int64, "runs of the second"),
        ("difference", pl.Float64, "avg_score of A minus that of B, as they stand"),
        ("adjusted_difference", pl.Float64, "for the same task mix, equal weight per person"),
        *ends("adjusted"),
        ("adjusted_low_holm", pl.Float64, _LOW_HOLM),
        ("adjusted_high_holm", pl.Float64, "upper end of that interval"),
        ("adjusted_p", pl.Float64, "two-sided p-value of adjusted_difference"),
        (
            "adjusted_p_holm",
            pl.Float64,
            "the same, corrected for all pairs of the report",
        ),
        ("without_failed", pl.Float64, "difference without runs that failed at the start"),
        ("shared_classes", pl.Int64, "task classes that both have"),
        ("shared_runs", pl.Float64, "share of the runs of both in these classes"),
        ("shared_days", pl.Float64, "share of the runs on days on which both were used"),
        ("counterparts", pl.Float64, "share of the runs in weeks and task classes of both"),
        *estimate("cost_ratio", "cost of a run with A over that with B, geometric means"),
        ("cost_ratio_low_holm", pl.Float64, "lower end, corrected for all cost ratios"),
        ("cost_ratio_high_holm", pl.Float64, "upper end, corrected for all cost ratios"),
        ("not_worse_a_p", pl.Float64, "one-sided p-value: A is less than the margin below B"),
        ("not_worse_b_p", pl.Float64, "one-sided p-value: B is less than the margin below A"),
        ("hedges_g", pl.Float64, "difference in standard deviations"),
        ("superiority", pl.Float64, "probability that a random run of A beats one of B"),
        ("clustered_by", pl.String, "person, or session and day if people are unknown"),
        ("people_a", pl.Int64, "known people who used A"),
        ("people_b", pl.Int64, "known people who used B"),
        ("people_both", pl.Int64, "known people who used both"),
        ("is_paired", pl.Boolean, "people were compared with themselves"),
        ("at_ceiling", pl.Boolean, "failures were tested separately"),
        ("verdict", pl.String, "A better, B better, not decided or too few people"),
        ("indication", pl.String, "tendency without a verdict, else null"),
        ("reason", pl.String, "why it is not decided, null if it is"),
        ("runs_needed", pl.Int64, "runs a side that show 5 points in 4 of 5 comparisons"),
        *_SPAN,
    ),
)

MODEL_REGRESSIONS = Table(
    name="model_regressions",
    grain="one row per model within a label: its last weeks against comparable days before",
    key=MODEL_COMPARISON.key,
    columns=columns(
        *_GROUP,
        ("model", pl.String, "model"),
        ("provider", pl.String, "its provider"),
        ("model_variant", pl.String, "its variant"),
        ("state", pl.String, "alert, lower, higher, steady or insufficient"),
        ("missing", pl.String, "what is missing to watch it, null unless insufficient"),
        ("window_since", UTC_TIME, "start of the recent weeks. Of an alert: since when"),
        ("window_until", UTC_TIME, "end of the recent weeks"),
        ("channel", pl.String, "scores, near 100 what moved them most: failures, or passes"),
        ("recent_runs", pl.Int64, "runs of the recent weeks"),
        ("before_runs", pl.Int64, "runs of up to 90 days before them"),
        ("before_days", pl.Int64, "days from the first of these runs to the recent weeks"),
        ("recent_score", pl.Float64, "mean score of recent_runs"),
        ("before_score", pl.Float64, "predicted by the days before, for the same people and tasks"),
        ("change", pl.Float64, "recent_score less before_score"),
        ("change_low", pl.Float64, "lower end of its interval: 95% on all nights of a quarter"),
        ("change_high", pl.Float64, "upper end of that interval"),
        (
            "p_quarter",
            pl.Float64,
            "chance that any model goes this far on a night of a quarter by chance",
        ),
        ("people", pl.Int64, "known people of recent_runs"),
        ("largest_share", pl.Float64, "share of the person with the most of these runs"),
        ("change_without_one", pl.Float64, "change without the person who moves it most"),
        (
            "recent_failed",
            pl.Int64,
            "near 100, recent_runs far below the others and under 50, else null",
        ),
        ("before_failed", pl.Int64, "before_runs that are, else null"),
        ("worst_sessions", pl.List(pl.String), "lowest of recent_runs for their class and person"),
        ("computed_at", UTC_TIME, "when the comparison was made"),
    ),
)


LIFT_MEASURES = {
    "composite": "composite, 0-10",
    "failure_rate": "share of tool calls that failed, 0-1",
    "cost_usd": "cost, USD",
    "active_s": "active time, seconds",
}
"""Measure of the lift -> its meaning."""


def _measure_columns(measure: str, meaning: str) -> tuple[Column, ...]:
    return columns(
        (f"{measure}_sessions", pl.Int64, f"clean sessions of which it is known: {meaning}"),
        (f"{measure}_baseline_sessions", pl.Int64, "baseline sessions of which it is known"),
        (f"{measure}_people", pl.Int64, "people compared: with both, else of the side with fewer"),
        (f"{measure}_mean", pl.Float64, f"mean of people's means in clean sessions: {meaning}"),
        (f"{measure}_baseline_mean", pl.Float64, "mean of people's means in baseline sessions"),
        (f"{measure}_difference", pl.Float64, "mean - baseline mean, observed, not caused"),
        (f"{measure}_low", pl.Float64, "lower end of the 95% interval of the difference"),
        (f"{measure}_high", pl.Float64, "upper end of it"),
        (
            f"{measure}_state",
            pl.String,
            "shown, 'no spread', or of the smaller side 'not yet: n of 5' or 'too few people: ...'",
        ),
    )


OUTCOME_PREDICTIONS = Table(
    name="outcome_predictions",
    grain="one row per organization, score and outcome: how well the score predicts it",
    key=("organization_id", "score", "outcome"),
    order=("organization_id", "outcome", "score"),
    columns=columns(
        ("organization_id", pl.String, "organization"),
        ("score", pl.String, "effective, judge, composite, a dimension, a criterion or no tag"),
        ("outcome", pl.String, "outcome of the session, a good one is predicted"),
        ("family", pl.String, "primary, other, or agreement with what the transcript shows"),
        ("auc", pl.Float64, "mean of people's share of pairs in order, 0-1, null: too few"),
        ("auc_low", pl.Float64, "lower end, corrected for all tests of its family and look"),
        ("auc_high", pl.Float64, "upper end"),
        ("verdict", pl.String, "word of the verdict, null for an agreement"),
        ("people", pl.Int64, "people with 4 pairs or more"),
        ("left_out", pl.Int64, "people with one class of the outcome only, or fewer pairs"),
        ("units", pl.Int64, "sessions, or all of one pull request, in these pairs"),
        ("rarer", pl.Int64, "units of the rarer class, half of them for shares"),
        ("gain", pl.Float64, "AUC minus that of the composite, by people who count for both"),
        ("gain_low", pl.Float64, "lower end of its 95% interval, for this score alone"),
        ("gain_high", pl.Float64, "upper end"),
        ("people_needed", pl.Int64, "people like these that would settle an AUC of 0.70"),
        ("sessions", pl.Int64, "sessions of the organization"),
        ("with_outcome", pl.Int64, "those whose outcome is known, good or bad"),
        ("young", pl.Int64, "those younger than the horizon"),
        ("score_with", pl.Float64, "mean automatic score, 0-100, of those with_outcome"),
        ("score_without", pl.Float64, "mean automatic score, 0-100, of all other sessions"),
        ("look", pl.Int64, "number of the look at this outcome: each spends a part of 5%"),
        ("computed_at", UTC_TIME, "when the look was made"),
    ),
)

MASQUE_LIFT = Table(
    name="masque_lift",
    grain="one row per masque and kind of task: its clean sessions against the baseline",
    key=("organization_id", "masque", "task_class"),
    columns=(
        *columns(
            ("organization_id", pl.String, "organization"),
            ("masque", pl.String, "persona worn"),
            ("task_class", pl.String, "kind of task by the tool mix alone"),
            ("sessions", pl.Int64, "ended clean sessions of this masque and kind of task"),
            ("baseline_sessions", pl.Int64, "ended baseline sessions of this kind of task"),
            ("first_date", pl.Date, "first session date of either side"),
            ("last_date", pl.Date, "last session date of either side"),
            ("clustered_by", pl.String, "person, or session and day if people are unknown"),
        ),
        *(column for item in LIFT_MEASURES.items() for column in _measure_columns(*item)),
    ),
)


EVALUATION_BOOKS = Table(
    name="evaluation_books",
    grain="one row per session window: the one state it is in, why, and what would change that",
    key=("organization_id", "session_key"),
    columns=columns(
        *WINDOW[:4],
        *AGENT_SESSIONS.columns_named("source_cli", "model", "classification_label"),
        *SPAN,
        (
            "state",
            pl.String,
            "excluded ... scored ... deferred: the first that holds, see docs/operations.md",
        ),
        ("reason", pl.String, "why it is in that state", BLIND),
        ("what_next", pl.String, "how it gets into another state"),
        *SESSION_EVALUATIONS.columns_named("profile_id", "profile_version"),
        ("card_id", pl.String, "current scorecard by it, null when there is none"),
        *SESSION_EVALUATIONS.columns_named("effective_100", "effective_source"),
        ("scorings", pl.Int64, "judgments of the window, of any content and outcome"),
        ("judge_cost_usd", pl.Float64, "their cost, null when a price is unknown"),
        ("content_hash", pl.String, "booked content"),
        ("session_date", pl.Date, "UTC day the session started: the partition"),
    ),
)

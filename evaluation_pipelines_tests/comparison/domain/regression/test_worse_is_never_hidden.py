"""Whatever gets worse within a window that has an alert, the alert stays."""

from dataclasses import replace

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.regressions import ALERT, Look, looks, verdict

BEFORE, RECENT, NIGHT = 45, 14, 59
MODELS = 3

Random = np.random.Generator


def level(random: Random, days: np.ndarray, *, is_high: bool) -> np.ndarray:
    """Scores that are ordinary or near 100, some of which fail."""
    center, spread = (95.0, random.choice([0.0, 0.5, 3.0])) if is_high else (65.0, 12.0)
    fails = random.random(len(days)) < random.choice([0.0, 0.02, 0.1])
    return np.where(fails, random.uniform(0, 49), random.normal(center, spread, len(days)))


def drawn_history(seed: int) -> Arm:
    """Runs of a model whose last days are about as good as before, lower or mostly failures."""
    random = np.random.default_rng(seed)
    counts = random.poisson(random.choice([1.2, 3.0]), NIGHT)
    days = np.repeat(np.arange(NIGHT), counts)
    scores = level(random, days, is_high=bool(random.integers(4)))
    recent = days >= random.integers(BEFORE, NIGHT)
    lowered = recent & (random.random(len(days)) < random.random())
    scores -= lowered * random.choice([0.0, 5.0, 15.0, 30.0, 90.0])
    people, classes = (random.integers(0, number, len(days)) for number in (4, 2))
    return Arm(np.clip(scores, 0, 100), people, classes, days)


def lower(runs: Arm, since: int, seed: int) -> Arm:
    """The same runs, some of those from a day on lower: by a little, to a failure, or to 0."""
    random = np.random.default_rng(seed)
    changed = (runs.days >= since) & (random.random(len(runs)) < random.random())
    by = random.choice([1.0, 10.0, 40.0, 100.0], len(runs)) * changed
    return replace(runs, scores=np.maximum(runs.scores - by, np.minimum(runs.scores, 0)))


def by_window(runs: Arm) -> dict[int, Look]:
    return {each.since: each for each in looks(runs, [NIGHT])}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_lower_recent_scores_never_turn_an_alert_off(seed: int, again: int) -> None:
    runs = drawn_history(seed)
    for since, look in by_window(runs).items():
        worse = by_window(lower(runs, since, again))[since]
        assert worse.change.deviates <= look.change.deviates + 1e-9
        assert worse.change.value <= look.change.value + 1e-9
        assert worse.change.lasting <= look.change.lasting + 1e-9
        if verdict(look, MODELS) == ALERT:
            event(f"alert about {look.channel}")
            assert verdict(worse, MODELS) == ALERT

"""Variants of models in inputs after public reports."""

from pathlib import Path

from evaluation_pipelines_tests.telemetry.golden import stateless

_DATA = Path(__file__).parents[1] / "data" / "reported"


def test_what_runs_differently_is_a_variant_of_one_model() -> None:
    rows = stateless(
        *(_DATA / f"{name}.jsonl" for name in ("cc-model-1m-suffix", "codex-service-tier"))
    )

    assert {key: (row["model"], row["model_variant"]) for key, row in rows.items()} == {
        # Two of four requests, half of the output.
        "b03-1m": ("claude-opus-4-7", "mixed"),
        "b03-1m-only": ("claude-opus-4-7", "context 1m"),
        "b14-default": ("gpt-5.5", "effort high"),
        "b14-flex": ("gpt-5.5", "effort high, tier flex"),
        "b14-priority": ("gpt-5.5", "effort high, tier priority"),
    }

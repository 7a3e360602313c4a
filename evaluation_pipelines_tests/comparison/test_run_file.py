"""Runs from a file: what is read, what is refused, and the list for other programs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.compare import coverage
from evaluation_pipelines.comparison.domain.findings import verdict_list
from evaluation_pipelines.comparison.run_file import compare_file, ignored_columns, read_runs
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.people.domain.identities import NO_IDENTITIES, SentIds
from evaluation_pipelines_tests.world.runs import scores

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def rows(
    label: str = "code", people: int = 8, apart: float = 20.0, **columns: object
) -> list[dict[str, Any]]:
    """Forty runs of a model ``good`` and of one that is ``apart`` points worse."""
    return [
        {"label": label, "model": model, "score": score, "user_id": f"u{at % people}"} | columns
        for model, mean, seed in (("good", 85.0, 1), ("other", 85.0 - apart, 2))
        for at, score in enumerate(scores(mean, 40, 5, seed))
    ]


def written(folder: Path, runs: list[dict[str, Any]], name: str = "runs.parquet") -> Path:
    path = folder / name
    frame = pl.DataFrame(runs)
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return path


@pytest.mark.parametrize("name", ["runs.csv", "runs.parquet"])
def test_a_file_is_compared_as_the_report_does_it(tmp_path: Path, name: str) -> None:
    runs = rows()
    found = verdict_list(compare_file(written(tmp_path, runs, name), NOW))
    good = [row["score"] for row in runs if row["model"] == "good"]
    (first, second) = found["models"]
    assert list(first) == ["label", "model", "runs", "mean", "low", "high"]
    assert (first["label"], first["model"], first["runs"]) == ("code", "good", 40)
    assert first["mean"] == pytest.approx(sum(good) / 40)
    assert first["low"] < first["mean"] < first["high"] < 100
    assert second["model"] == "other"
    (pair,) = found["pairs"]
    assert list(pair) == [
        *("label", "model_a", "model_b", "difference", "low", "high"),
        *("corrected_low", "corrected_high", "verdict", "indication"),
    ]
    assert (pair["model_a"], pair["model_b"]) == ("good", "other")
    assert 15 < pair["low"] < pair["difference"] < pair["high"] < 25
    # One pair: there is nothing to correct for.
    assert (pair["corrected_low"], pair["corrected_high"]) == (pair["low"], pair["high"])
    assert (pair["verdict"], pair["indication"]) == ("a_better", None)


def test_without_persons_every_verdict_is_an_indication(tmp_path: Path) -> None:
    runs = [{name: row[name] for name in ("model", "score")} for row in rows()]
    (pair,) = verdict_list(compare_file(written(tmp_path, runs), NOW))["pairs"]
    assert (pair["label"], pair["verdict"], pair["indication"]) == (
        "general",
        "not_decided",
        "a_better",
    )
    # 20 points, two standard errors of sqrt(2 * 25 / 40) = 1.1 each way.
    assert pair["high"] - pair["low"] == pytest.approx(4 * 1.1, rel=0.2)


def test_a_model_of_two_providers_has_two_rows(tmp_path: Path) -> None:
    runs = [*rows(provider="p"), *rows(provider="q", apart=0)[:40]]
    found = verdict_list(compare_file(written(tmp_path, runs), NOW))
    assert [row["model"] for row in found["models"]] == ["good (p)", "good (q)", "other"]


def test_times_and_costs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(
        "model,score,cost_usd,started_at,more\n"
        "a, 80 ,0.5,2026-11-21T06:00:00+02:00,x\n"
        "a,0,,2026-11-21,y\n"
    )
    found = read_runs(path)
    assert found["score"].to_list() == [80, 0]
    assert found["cost_usd"].to_list() == [0.5, None]
    assert found["started_at"].to_list() == [
        datetime(2026, 11, 21, 4, tzinfo=UTC),
        datetime(2026, 11, 21, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,points\na,1\n", "no column score. It has model, points"),
        ("name\na\n", "no column model and score. It has name"),
        ("model,score\na,1\na,101\na,-1\n", "row 2: score is outside 0-100 (101.0), 1 more rows"),
        ("model,score\na,NaN\n", "row 1: score is not a number (nan)"),
        ("model,score\na,1\na,high\n", "row 2: score is not a number (high)"),
        ("model,score\n,1\n", "row 1: model is empty"),
        ("model,score,cost_usd\na,1,-0.5\n", "row 1: cost_usd is not an amount (-0.5)"),
        ("model,score,cost_usd\na,1,inf\n", "row 1: cost_usd is not an amount (inf)"),
        ("model,score,started_at\na,1,noon\n", "row 1: started_at is not a time such as"),
        ("model,score,started_at\na,1,2026-11-21\na,1,\n", "row 2: started_at is empty"),
        ("", "not a Parquet or CSV file with a header"),
    ],
)
def test_a_file_that_is_not_valid_is_refused_with_row_and_column(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        read_runs(path)
    assert f"{path}: {message}" in str(error.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"model": ["a"], "score": [True]}, "column score is Boolean, not numbers"),
        ({"model": ["a", "b"], "score": [1.0, float("nan")]}, "row 2: score is not a number"),
        ({"model": ["a"], "score": [1], "started_at": [[1]]}, "column started_at is List"),
    ],
)
def test_a_parquet_file_is_checked_as_well(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    path = tmp_path / "runs.parquet"
    pl.DataFrame(columns).write_parquet(path)
    with pytest.raises(UserError, match=message):
        read_runs(path)


def test_runs_without_a_score_are_counted_as_left_out(tmp_path: Path) -> None:
    unscored = [{"label": "code", "model": "good", "score": None, "user_id": "u1"}] * 2
    found = compare_file(written(tmp_path, [*rows(), *unscored]), NOW)
    assert [(line["what"], line["sessions"], line["why"]) for line in coverage(found)] == [
        ("ranked", 80, "in the ranking"),
        ("no score", 2, "the file has no score of it"),
    ]
    assert verdict_list(found)["models"][0]["runs"] == 40


def test_any_column_can_be_compared(tmp_path: Path) -> None:
    hooks = [row | {"hook": row["model"], "model": "one"} for row in rows()]
    path = written(tmp_path, hooks)
    found = verdict_list(compare_file(path, NOW, by="hook"))
    assert [row["model"] for row in found["models"]] == ["good", "other"]
    assert ignored_columns(path, "hook") == ["model"]
    with pytest.raises(UserError, match=r"no column team\. It has label, model, score"):
        compare_file(path, NOW, by="team")


def test_a_parquet_file_may_have_times_of_any_kind(tmp_path: Path) -> None:
    time = datetime(2026, 11, 21, 6, tzinfo=UTC)
    base = pl.DataFrame({"model": ["a"], "score": [80]})
    for number, column in enumerate(
        (pl.lit(time), pl.lit(time.replace(tzinfo=None)), pl.lit(time.date()))
    ):
        path = tmp_path / f"{number}.parquet"
        base.with_columns(started_at=column).write_parquet(path)
        assert read_runs(path)["started_at"].dt.date().to_list() == [time.date()]


def test_a_file_without_a_run_has_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("model,score\n")
    assert verdict_list(compare_file(path, NOW)) == {"models": [], "pairs": [], "money": []}


def test_a_file_that_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing\.csv: "):
        read_runs(tmp_path / "missing.csv")
    broken = tmp_path / "broken.parquet"
    broken.write_text("PAR1")
    with pytest.raises(UserError, match=r"broken\.parquet: not a Parquet or CSV file"):
        read_runs(broken)


def test_people_are_told_apart_as_in_the_lake(tmp_path: Path) -> None:
    ids = ["Ada@Orchard.example", "ada@orchard.example", "Ben", "ben", None]
    runs = [{"model": "a", "score": 50, "user_id": user_id} for user_id in ids]
    found = read_runs(written(tmp_path, runs))["person"].to_list()
    sent = [
        SentIds(
            "claude_code",
            NOW.date(),
            user_id if user_id and "@" in user_id else None,
            user_id,
            None,
            None,
        )
        for user_id in ids
    ]
    assert found == [NO_IDENTITIES.person_of(sent_ids) for sent_ids in sent]
    assert found == ["ada@orchard.example", "ada@orchard.example", "Ben", "ben", None]


def test_each_label_alone_is_corrected_by_itself(tmp_path: Path) -> None:
    runs = [row for number in range(6) for row in rows(f"label {number}", apart=3.2)]
    path = written(tmp_path, runs)
    together, alone = (compare_file(path, NOW, alone=alone).pairs for alone in (False, True))
    assert alone["adjusted_p_holm"].to_list() == pytest.approx(alone["adjusted_p"].to_list())
    # Six equal labels: Holm's first step is six times as strict.
    assert together["adjusted_p_holm"].to_list() == pytest.approx(
        [6 * p for p in alone["adjusted_p"]]
    )

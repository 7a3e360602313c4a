"""Runs to compare from a Parquet or CSV file: any benchmark's results, or a simulation."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from evaluation_pipelines.comparison.domain.audits import AUDITS
from evaluation_pipelines.comparison.domain.compare import MIN_RUNS, Comparison, Question, compare
from evaluation_pipelines.comparison.domain.runs import RUNS, Nouns
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.schemas import UTC_TIME

WHAT = "model"
"""Column of what is compared, unless another one is named."""

REQUIRED = (WHAT, "score")
OPTIONAL = ("provider", "user_id", "label", "task_class", "repository", "cost_usd", "started_at")

_READ = pl.Schema(
    dict.fromkeys((*REQUIRED, *OPTIONAL), pl.String())
    | {"score": pl.Float64(), "cost_usd": pl.Float64(), "started_at": UTC_TIME}
)

_OWN_NAMES = {
    "effective_100": "score",
    "classification_label": "label",
    "person_id": "user_id",
}
"""Columns of the product's own lists of sessions, as far as they have another name here."""

_UNTIMED = datetime(2000, 1, 3, tzinfo=UTC)
"""Start of runs without a time: then there are no days to tell apart."""


def compare_file(
    path: Path,
    now: datetime,
    min_runs: int = MIN_RUNS,
    by: str = WHAT,
    **limits: Any,
) -> Comparison:
    """Compare the runs of a file, whenever they started, by the functions of the report.

    Args:
        path: Parquet or CSV, see ``read_runs``.
        now: Time of the comparison.
        min_runs: A model with fewer runs is not ranked.
        by: Column whose values are compared.
        limits: ``alone``, ``margin`` and ``within`` of the question.

    Raises:
        UserError: the file cannot be read, or a row is not valid.
    """
    runs = read_runs(path, by)
    times = runs["started_at"].to_list()
    since, until = min(times, default=_UNTIMED), max(times, default=_UNTIMED)
    last = until + timedelta(seconds=1)
    nouns = Nouns(by.replace("_", " "), "run")
    question = Question(since, last, min_runs=min_runs, nouns=nouns, **limits)
    return compare(runs, AUDITS.to_frame(), question, now, watches=False)


def ignored_columns(path: Path, by: str = WHAT) -> list[str]:
    """Return the columns of a file that ``read_runs`` does not use.

    Raises:
        UserError: the file cannot be read.
    """
    columns = _read(path).columns
    used = _names(columns, by)
    return [name for name in columns if name not in used]


def read_runs(path: Path, by: str = WHAT) -> pl.DataFrame:
    """Return RUNS from a file with one row per run.

    Columns ``by`` and ``score`` (0-100); optionally ``provider``, ``user_id`` (email addresses in
    any case), ``label``, ``task_class``, ``repository``, ``cost_usd`` and ``started_at`` (UTC);
    other columns are ignored. An exported list of sessions fits as it is. Rows without a score have
    none in RUNS, either, and are counted as left out; so are sessions whose ``by`` is unknown.

    Raises:
        UserError: the file cannot be read, or a row is not valid.
    """
    given = _read(path)
    is_own = "effective_100" in given.columns
    rows = given.select(pl.col(old).alias(new) for old, new in _names(given.columns, by).items())
    if missing := [name for name in REQUIRED if name not in rows.columns]:
        wanted = " and ".join(by if name == WHAT else name for name in missing)
        raise UserError(f"{path}: no column {wanted}. It has {', '.join(given.columns) or 'none'}")
    names = [name for name in (*REQUIRED, *OPTIONAL) if name in rows.columns]
    if nested := [name for name in names if rows[name].dtype.is_nested()]:
        raise UserError(f"{path}: column {nested[0]} is {rows[nested[0]].dtype}, not single values")
    readers = {"score": _numbers, "cost_usd": _numbers, "started_at": _times}
    parsed = rows.select(readers.get(name, _texts)(path, rows[name]) for name in names)
    score, cost = pl.col("score"), pl.col("cost_usd")
    for name, is_wrong, what in (
        ("model", pl.col("model").is_null() & (not is_own), "is empty"),
        ("score", ~score.is_finite(), "is not a number"),
        ("score", ~score.is_between(0, 100), "is outside 0-100"),
        ("cost_usd", ~cost.is_finite() | (cost < 0), "is not an amount"),
    ):
        if name in names:
            _check(path, parsed, name, is_wrong, what)
    return _as_runs(pl.concat([_READ.to_frame(), parsed], how="diagonal"))


def _names(columns: Sequence[str], by: str) -> dict[str, str]:
    """Return the columns that are used, each with its name in REQUIRED or OPTIONAL.

    A column of the product's own lists gives way to one that has that name.
    """
    named = {WHAT: by} | {name: name for name in (*REQUIRED, *OPTIONAL) if name != WHAT}
    found = {old: new for new, old in named.items() if old in columns}
    own = {old: new for old, new in _OWN_NAMES.items() if old in columns and old != by}
    return found | {old: new for old, new in own.items() if new not in columns}


def _read(path: Path) -> pl.DataFrame:
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return pl.read_parquet(path)
        # As text: a wrong value is reported with its row.
        return pl.read_csv(path, infer_schema=False)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except pl.exceptions.PolarsError as error:
        first = str(error).splitlines()[0]
        raise UserError(f"{path}: not a Parquet or CSV file with a header: {first}") from error


def _numbers(path: Path, values: pl.Series) -> pl.Series:
    if values.dtype != pl.String:
        if not (values.dtype.is_numeric() or values.dtype == pl.Null):
            raise UserError(f"{path}: column {values.name} is {values.dtype}, not numbers")
        return values.cast(pl.Float64)
    return _parsed(path, values, lambda t: t.cast(pl.Float64, strict=False), "is not a number")


def _times(path: Path, values: pl.Series) -> pl.Series:
    if values.dtype == pl.Date:
        values = values.cast(pl.Datetime("us"))
    if isinstance(values.dtype, pl.Datetime):
        zoned = values.dtype.time_zone is not None
        found = values.dt.convert_time_zone("UTC") if zoned else values.dt.replace_time_zone("UTC")
    else:
        what = "is not a time such as 2026-11-21T06:00:00Z"
        found = _parsed(
            path, values, lambda t: t.map_elements(_parse_time, return_dtype=UTC_TIME), what
        )
    name = values.name
    _check(path, found.to_frame(), name, pl.col(name).is_null(), "is empty")
    return found.cast(UTC_TIME)


def _parse_time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _texts(_path: Path, values: pl.Series) -> pl.Series:
    return values.cast(pl.String).str.strip_chars().replace("", None)


def _parsed(
    path: Path, values: pl.Series, parse: Callable[[pl.Series], pl.Series], what: str
) -> pl.Series:
    """Parse values; the first one without a meaning is reported."""
    text = _texts(path, values)
    parsed = parse(text)
    wrong = parsed.is_null() & text.is_not_null()
    _check(path, text.to_frame(), text.name, pl.lit(wrong), what)
    return parsed


def _check(path: Path, rows: pl.DataFrame, name: str, is_wrong: pl.Expr, what: str) -> None:
    """Report the first row for which a condition holds; rows are counted from 1.

    Raises:
        UserError: there is one.
    """
    wrong = rows.with_row_index("row", offset=1).filter(is_wrong)
    if wrong.is_empty():
        return
    first = wrong.row(0, named=True)
    value = "" if first[name] is None else f" ({first[name]})"
    more = f", {wrong.height - 1} more rows have this" if wrong.height > 1 else ""
    raise UserError(f"{path}: row {first['row']}: {name} {what}{value}{more}")


def _as_runs(parsed: pl.DataFrame) -> pl.DataFrame:
    """Return RUNS with the usual values in columns that the file does not have."""
    sent, number = pl.col("user_id"), pl.format("row {}", pl.int_range(1, pl.len() + 1))
    has_score = pl.col("score").is_not_null()
    filled = parsed.select(
        *("model", "provider", "task_class", "repository", "cost_usd", "score"),
        organization_id=pl.lit("default"),
        session_key=number,
        session_id=number,
        classification_label=pl.col("label").fill_null("general"),
        effective_source=pl.when(has_score).then(pl.lit("file")).otherwise(pl.lit("none")),
        reason=pl.when(~has_score).then(pl.lit("the file has no score of it")),
        started_at=pl.col("started_at").fill_null(pl.lit(_UNTIMED).cast(UTC_TIME)),
        # As in ``person_id`` of sessions: email addresses ignore case, other ids do not.
        person=pl.when(sent.str.contains("@", literal=True))
        .then(sent.str.to_lowercase())
        .otherwise(sent),
        is_disqualified=pl.lit(value=False),
        failed_at_start=pl.lit(value=False),
    )
    return pl.concat([RUNS.to_frame(), filled], how="diagonal_relaxed").cast(RUNS)

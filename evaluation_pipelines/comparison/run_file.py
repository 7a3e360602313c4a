"""Runs to compare from a Parquet or CSV file: any benchmark's results, or a simulation."""

from collections.abc import Sequence
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

_OWN_NAMES = {
    "effective_100": "score",
    "classification_label": "label",
    "person_id": "user_id",
}
"""Columns of the product's own lists of sessions, as far as they have another name here."""

_UNTIMED = datetime(2000, 1, 3, tzinfo=UTC)
"""Start of runs without a time: then there are no days to tell apart."""

_LABEL = "general"
_TEXTS = ("provider", "user_id", "label", "task_class", "repository")


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
        raise UserError(f"{path}: no column {wanted}; it has {', '.join(given.columns) or 'none'}")
    names = [name for name in (*REQUIRED, *OPTIONAL) if name in rows.columns]
    if nested := [name for name in names if rows[name].dtype.is_nested()]:
        raise UserError(f"{path}: column {nested[0]} is {rows[nested[0]].dtype}, not single values")
    numbers = {"score", "cost_usd"}
    parsed = rows.select(
        *(_number(path, rows, name) for name in names if name in numbers),
        *(_text(rows, name) for name in names if name not in numbers | {"started_at"}),
        *(_time(path, rows) for name in names if name == "started_at"),
    )
    if not is_own:
        _check(path, parsed, "model", pl.col("model").is_null(), "is empty")
    score = pl.col("score")
    _check(path, parsed, "score", ~score.is_finite(), "is not a number")
    _check(path, parsed, "score", ~score.is_between(0, 100), "is outside 0-100")
    if "cost_usd" in names:
        cost = pl.col("cost_usd")
        _check(path, parsed, "cost_usd", ~cost.is_finite() | (cost < 0), "is not an amount")
    return _as_runs(parsed)


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


def _number(path: Path, rows: pl.DataFrame, name: str) -> pl.Series:
    values = rows[name]
    if values.dtype != pl.String:
        if not (values.dtype.is_numeric() or values.dtype == pl.Null):
            raise UserError(f"{path}: column {name} is {values.dtype}, not numbers")
        return values.cast(pl.Float64)
    text = values.str.strip_chars()
    parsed = text.replace("", None).cast(pl.Float64, strict=False)
    _check_parsed(path, values, parsed, name, "is not a number")
    return parsed


def _time(path: Path, rows: pl.DataFrame) -> pl.Series:
    name = "started_at"
    values = rows[name]
    if values.dtype == pl.Date:
        values = values.cast(pl.Datetime("us"))
    if isinstance(values.dtype, pl.Datetime):
        zoned = values.dtype.time_zone is not None
        found = values.dt.convert_time_zone("UTC") if zoned else values.dt.replace_time_zone("UTC")
    else:
        text = values.cast(pl.String).str.strip_chars().replace("", None)
        found = text.map_elements(_parse_time, return_dtype=UTC_TIME)
        _check_parsed(path, values, found, name, "is not a time such as 2026-11-21T06:00:00Z")
    parsed = found.cast(UTC_TIME)
    if parsed.null_count():
        row = int(parsed.is_null().arg_max() or 0) + 1
        raise UserError(f"{path}: row {row}: {name} is empty")
    return parsed


def _parse_time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _text(rows: pl.DataFrame, name: str) -> pl.Series:
    return rows[name].cast(pl.String).str.strip_chars().replace("", None)


def _check_parsed(path: Path, values: pl.Series, parsed: pl.Series, name: str, what: str) -> None:
    """Report the first value that has a text but no meaning."""
    text = values.cast(pl.String).str.strip_chars()
    wrong = pl.DataFrame({name: text, "parsed": parsed})
    is_wrong = pl.col("parsed").is_null() & (pl.col(name) != "")
    _check(path, wrong, name, is_wrong, what)


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
    more = f"; {wrong.height - 1} more rows have this" if wrong.height > 1 else ""
    raise UserError(f"{path}: row {first['row']}: {name} {what}{value}{more}")


def _person() -> pl.Expr:
    """Return who a ``user_id`` is, as in ``person_id`` of sessions.

    Email addresses ignore case, other ids do.
    """
    sent = pl.col("user_id")
    return (
        pl.when(sent.str.contains("@", literal=True)).then(sent.str.to_lowercase()).otherwise(sent)
    )


def _as_runs(parsed: pl.DataFrame) -> pl.DataFrame:
    """Return RUNS with the usual values in columns that the file does not have."""
    known = parsed.with_columns(
        pl.lit(None, dtype).alias(name)
        for name, dtype in {
            **dict.fromkeys(_TEXTS, pl.String()),
            "cost_usd": pl.Float64(),
            "started_at": UTC_TIME,
        }.items()
        if name not in parsed.columns
    ).with_row_index("row", offset=1)
    number = pl.format("row {}", pl.col("row"))
    filled = known.select(
        "model",
        "provider",
        "task_class",
        "repository",
        "cost_usd",
        "score",
        organization_id=pl.lit("default"),
        session_key=number,
        session_id=number,
        classification_label=pl.col("label").fill_null(_LABEL),
        effective_source=pl.when(pl.col("score").is_null())
        .then(pl.lit("none"))
        .otherwise(pl.lit("file")),
        reason=pl.when(pl.col("score").is_null()).then(pl.lit("the file has no score of it")),
        started_at=pl.col("started_at").fill_null(pl.lit(_UNTIMED).cast(UTC_TIME)),
        person=_person(),
        is_disqualified=pl.lit(value=False),
        failed_at_start=pl.lit(value=False),
    )
    absent = [
        pl.lit(None, dtype).alias(name)
        for name, dtype in RUNS.items()
        if name not in filled.columns
    ]
    return filled.with_columns(absent).select(RUNS.names()).cast(RUNS)

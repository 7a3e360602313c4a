"""Scores that predict outcomes: the lake table of predictions, and the ledger's looks."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.comparison.domain.outcomes import (
    OWN,
    RULES,
    Rule,
    outcome_values,
    rule_of,
)
from evaluation_pipelines.comparison.domain.prediction import (
    AGREEMENT,
    OTHER,
    PRIMARY,
    Prediction,
    Units,
    Verdict,
    difference,
    look_level,
    predictions,
    step_of,
    verdicts,
)
from evaluation_pipelines.comparison.domain.runs import LARGEST_UNKNOWN
from evaluation_pipelines.judging.domain.prompt.rubric import FAILURE_TAGS
from evaluation_pipelines.judging.ledger.score_store import RubricTexts
from evaluation_pipelines.numerics.estimates import UNKNOWN, Numbers
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    JUDGE_SCORES,
    OUTCOME_PREDICTIONS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    SESSION_OUTCOMES,
    SESSION_PERFORMANCE,
    UTC_TIME,
)
from evaluation_pipelines.sessions.domain.performance import WEIGHTS
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import GATE_LOOKS
from evaluation_pipelines.storage.stores import Stores

BASIS = "composite"
"""Score that costs nothing: others are compared with it."""

_PAUSE = timedelta(hours=20)
"""Indications, which are no verdicts, are computed again after this time."""

MAIN_SCORES = ("effective", "judge", BASIS)
"""Scores of the first family, by the outcome of EVAL_PRIMARY_OUTCOME."""


def write_predictions(stores: Stores, now: datetime, *, again: bool = False) -> pl.DataFrame:
    """Replace and return the table of predictions.

    An organization keeps its rows until its primary outcome allows a further look, or they have to
    be made ``again`` because sessions were erased.

    Raises:
        LakeError: A file cannot be read or written.
        LedgerError: The looks cannot be read or written.
        UserError: There is no outcome of the name of EVAL_PRIMARY_OUTCOME.
    """
    primary = rule_of(stores.settings.primary_outcome)
    scored, outcomes = _scored(stores), stores.lake.select(SESSION_OUTCOMES)
    kept = stores.lake.read_whole(OUTCOME_PREDICTIONS)
    parts = [kept.clear()]
    for (organization,), sessions in scored.group_by("organization_id", maintain_order=True):
        rows = outcomes.filter(organization_id=organization)
        tested = tested_outcomes(sessions, rows, primary)
        before = kept.filter(organization_id=organization)
        is_kept = before.height > 0 and not again
        look = _look(stores.ledger, str(organization), tested[0], now, has_rows=is_kept)
        if look == (0, 0) and is_kept and before["computed_at"].max() > now - _PAUSE:  # type: ignore[operator]
            look = None
        parts.append(
            before if look is None else prediction_rows(str(organization), tested, look, now)
        )
    found = pl.concat(parts).sort(OUTCOME_PREDICTIONS.order)
    stores.lake.write_whole(found, OUTCOME_PREDICTIONS)
    return found


def _scored(stores: Stores) -> pl.DataFrame:
    """Return all sessions with person, class, repository, and a column per score.

    ``<score>@`` is the time from which it was known, null for the end of the session. A
    score by a profile or rubric registered after the end of the session is null.
    """
    lake = stores.lake.snapshot()
    columns = ["person_id", "repository"]
    days = sorted(lake.partitions(SESSION_EVALUATIONS))
    facts = lake.read(AGENT_SESSIONS, days, [*SESSION_KEY, *columns])
    performance = lake.read(SESSION_PERFORMANCE, days, [*SESSION_KEY, *WEIGHTS])
    evaluations = lake.read(SESSION_EVALUATIONS, days).join(facts, on=SESSION_KEY, how="left")
    sessions = evaluations.join(performance, on=SESSION_KEY, how="left")
    sessions = sessions.join(_judged(stores), on=SESSION_KEY, how="left")
    cards = lake.read(SCORECARDS, days, ["card_id", "scored_at"]).unique("card_id")
    versions = [
        (version.profile.id, version.profile.version, version.registered_at)
        for version in ProfileStore(stores.ledger).registry().versions
    ]
    schema: dict[str, Any] = {
        "profile_id": pl.String,
        "profile_version": pl.Int64,
        "registered_at": UTC_TIME,
    }
    known = pl.DataFrame(versions, schema, orient="row")
    source = pl.col("automatic_source")
    is_card, is_judge = source == "scorecard", source == "judge"
    on_time = pl.col("registered_at") < pl.col("ended_at")
    is_ours = pl.when(is_card).then(on_time).when(is_judge).then("judge_in_time").otherwise(True)  # noqa: FBT003
    return (
        sessions.join(cards, on="card_id", how="left")
        .join(known, on=["profile_id", "profile_version"], how="left")
        .with_columns(
            pl.when(is_ours & (source != "status")).then("automatic_100").alias("effective"),
            pl.when(is_card).then("scored_at").when(is_judge).then("judge@").alias("effective@"),
        )
    )


def _judged(stores: Stores) -> pl.DataFrame:
    """Return SESSION_KEY, judge total, criteria and tags of the latest judgment, 1 is no tag."""
    rows = stores.lake.select(JUDGE_SCORES).filter(
        pl.col("status") == "completed", pl.col("is_current")
    )
    last = rows.sort("completed_at").unique(SESSION_KEY, keep="last")
    first = RubricTexts(stores.ledger).first_used()
    used = pl.col("prompt_hash").replace_strict(first, default=None, return_dtype=UTC_TIME)
    ended = stores.lake.select(SESSION_EVALUATIONS).select(*SESSION_KEY, "ended_at")
    found = last.join(ended, on=SESSION_KEY).with_columns(judge_in_time=used < pl.col("ended_at"))
    found = found.filter(pl.col("judge_in_time"))
    given = [json.loads(score or "{}") for score in found["criteria_scores"]]
    names = sorted({name for facts in given for name in facts})
    tags = pl.col("failure_tags")
    return found.select(
        *SESSION_KEY,
        "judge_in_time",
        pl.col("total_score").alias("judge"),
        pl.col("completed_at").alias("judge@"),
        *(
            pl.Series(f"judge: {name}", [facts.get(name) for facts in given], pl.Float64)
            for name in names
        ),
        *(
            (~tags.list.contains(tag)).cast(pl.Float64).alias(f"judge: no {tag}")
            for tag in FAILURE_TAGS
        ),
    )


@dataclass(frozen=True, slots=True)
class Tested:
    """An outcome of an organization: its units with scores, and counts for the notes."""

    rule: Rule
    names: Sequence[str]
    units: Units
    scores: Numbers
    facts: dict[str, Any]
    is_known: bool

    @property
    def rarer(self) -> int:
        """Units of the rarer class, half of all for shares."""
        good = float(self.units.values.sum())
        count = len(self.units.values)
        return count // 2 if self.units.is_share else int(min(good, count - good))


def _names(sessions: pl.DataFrame) -> list[str]:
    judged = [column for column in sessions.columns if column.startswith("judge: ")]
    return [*MAIN_SCORES, *WEIGHTS, *judged]


def tested_outcomes(sessions: pl.DataFrame, rows: pl.DataFrame, primary: Rule) -> list[Tested]:
    """Return the outcomes of an organization that its scores are tested by, the primary one first.

    Args:
        sessions: SESSION_KEY, ``started_at``, ``ended_at``, ``person_id``, ``task_class``,
            ``repository``, ``automatic_100``, and a column per score. ``judge@`` and ``effective@``
            are the times from which these were known.
        rows: Its rows of SESSION_OUTCOMES.
        primary: The outcome set beforehand.
    """
    known = sorted({*rows["kind"]} - {primary.kind})
    rules = [rule_of(kind) for kind in known if kind in RULES or kind.startswith(OWN)]
    return [_tested(sessions, rows, rule) for rule in (primary, *rules)]


def _tested(sessions: pl.DataFrame, rows: pl.DataFrame, rule: Rule) -> Tested:
    """Return an outcome with the scores known before it, in units of one person."""
    names = _names(sessions)
    found = outcome_values(rows, sessions, rule)
    joined = sessions.join(found, on=SESSION_KEY, how="left").with_columns(
        pl.when(pl.lit(rule.is_inside) | _score_time(name).lt(pl.col("at"))).then(name).alias(name)
        for name in names
    )
    known = joined.filter(pl.col("value").is_not_null())
    is_share = rule.is_share or not known["value"].is_in([0.0, 1.0]).all()
    value = pl.col("value").mean() if is_share else pl.col("value").max()
    unit = pl.coalesce("reference", pl.concat_str(SESSION_KEY, separator="\0"))
    stratum = pl.concat_str(
        "person_id",
        *(pl.col(column).fill_null("") for column in ("task_class", "repository")),
        separator="\0",
    )
    units = (
        known.filter(pl.col("person_id").is_not_null())
        .with_columns(stratum=stratum)
        .sort("started_at")
        .group_by("person_id", unit.alias("unit"), maintain_order=True)
        .agg(pl.col("stratum").first(), value, pl.col(names).mean())
        .with_columns(pl.col("person_id", "stratum").rank("dense").cast(pl.Int64) - 1)
    )
    score = pl.col("automatic_100")
    facts = {
        "sessions": sessions.height,
        "with_outcome": known.height,
        "score_with": known.select(score.mean()).item(),
        "score_without": joined.filter(pl.col("value").is_null()).select(score.mean()).item(),
        "young": int(joined["is_young"].sum()),
    }
    unknown = known["person_id"].null_count()
    return Tested(
        rule,
        names,
        Units(
            units["person_id"].to_numpy(),
            units["stratum"].to_numpy(),
            units["value"].to_numpy(),
            is_share,
        ),
        units.select(names).cast(pl.Float64).to_numpy(),
        facts,
        is_known=unknown <= LARGEST_UNKNOWN * known.height,
    )


def _score_time(score: str) -> pl.Expr:
    if score == "effective":
        return pl.coalesce("effective@", "ended_at")
    return pl.col("judge@") if score.startswith("judge") else pl.col("ended_at")


class Look(NamedTuple):
    """Number and level of a look. Look 0 decides nothing."""

    number: int
    level: float


def _look(
    ledger: Ledger, organization: str, primary: Tested, now: datetime, *, has_rows: bool
) -> Look | None:
    """Return the look at an organization. None if nothing may change.

    A look is spent when the rarer class of the primary outcome is beyond each step that it had.
    Before the first step there is no look but 0, which decides nothing. Without rows the last look
    is made again.
    """
    name = sha256(f"predictions\n{organization}".encode()).hexdigest()
    reached = step_of(primary.rarer if primary.is_known else 0)
    column = GATE_LOOKS.c
    with writing(ledger.engine) as connection:
        query = sa.select(column.look, column.level, column.runs).where(column.gate == name)
        spent = connection.execute(query.order_by(column.look)).all()
        steps = [row.runs.rsplit(" ", 1) for row in spent]
        furthest = max((int(step) for kind, step in steps if kind == primary.rule.kind), default=0)
        last = Look(spent[-1].look, spent[-1].level) if spent else Look(0, 0.0)
        if reached <= furthest:
            return None if spent and has_rows else last
        number = max(reached, last.number + 1)
        level = look_level(number, last.number, sum(row.level for row in spent))
        row = {
            "gate": name,
            "look": number,
            "runs": f"{primary.rule.kind} {reached}",
            "looked_at": now,
        }
        connection.execute(sa.insert(GATE_LOOKS).values(row | {"level": level}))
        return Look(number, level)


def prediction_rows(
    organization: str, tested: Iterable[Tested], look: Look, now: datetime
) -> pl.DataFrame:
    """Return OUTCOME_PREDICTIONS of an organization at a look, as of :func:`tested_outcomes`."""
    rows, found = list[dict[str, Any]](), list[Prediction]()
    for place, test in enumerate(tested):
        if not test.facts["with_outcome"] or not test.is_known:
            continue
        by_name = dict(zip(test.names, predictions(test.units, test.scores), strict=True))
        for name, one in by_name.items():
            is_main = place == 0 and name in MAIN_SCORES
            family = AGREEMENT if test.rule.is_inside else PRIMARY if is_main else OTHER
            gain = difference(one, by_name[BASIS]) or UNKNOWN
            gains = {"gain": gain.value, "gain_low": gain.low, "gain_high": gain.high}
            names = {"score": name, "outcome": test.rule.kind, "family": family}
            rows.append({**names, **test.facts, **gains})
            found.append(one)
    families = [row["family"] for row in rows]
    places = [place for place, tested_family in enumerate(families) if tested_family != AGREEMENT]
    given = verdicts(
        [found[place] for place in places],
        [families[place] == PRIMARY for place in places],
        look.level,
    )
    words = dict(zip(places, given, strict=True))
    common = {"organization_id": organization, "look": look.number, "computed_at": now}
    complete = [
        common | row | _figures(one, words.get(place))
        for place, (row, one) in enumerate(zip(rows, found, strict=True))
    ]
    shown = [row for row in complete if row["people"]]
    return pl.DataFrame(shown, OUTCOME_PREDICTIONS.schema, orient="row")


def _figures(found: Prediction, given: Verdict | None) -> dict[str, Any]:
    shown = found.interval() if given is None else given.interval
    needed = found.people_needed(given.level) if given and found.is_enough else None
    return {
        "people": found.people,
        "left_out": found.one_sided,
        "units": found.units,
        "rarer": found.rarer,
        "auc": shown.value,
        "auc_low": shown.low,
        "auc_high": shown.high,
        "verdict": None if given is None else given.word,
        "people_needed": needed,
    }

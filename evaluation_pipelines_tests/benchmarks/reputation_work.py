"""Millions of made-up signals in the embedded ClickHouse: the refresh and a plain query."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.storage.clickhouse import ClickHouse, open_clickhouse

_REPEATS = 3

# The same signals every time: spread over 150 days and three categories by a hash.
_SIGNALS = """
insert into reputation_events
select
    reinterpretAsUUID(toFixedString(sipHash128(number), 16)) as event_id,
    now64(3, 'UTC') - toIntervalSecond(sipHash64(number, 1) % (150 * 86400)) as timestamp,
    reinterpretAsUUID(toFixedString(sipHash128(number % {identities:UInt64}, 7), 16))
        as identity_id,
    ['task_quality', 'economic', 'identity_hygiene'][1 + sipHash64(number, 2) % 3] as category,
    'task_completed' as event_type,
    sipHash64(number, 3) % 2001 / 1000 - 1 as score_delta,
    sipHash64(number, 4) % 101 / 100 as confidence,
    'session' as reference_type,
    toString(number) as reference_id,
    map() as attributes,
    1 as revision,
    0 as is_deleted
from numbers({signals:UInt64})
"""

# What the refresh computes, as a query whose rows go nowhere.
_PLAIN = """
select * from reputation_scores_as_of(as_of = toString(now64(3, 'UTC'))) format Null
"""


def refresh_and_query(signals: int, identities: int) -> dict[str, Any]:
    """Seconds of a refresh and of the plain query over the same signals, the best of three."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_clickhouse(f"chdb://{Path(folder) / 'engine'}") as clickhouse,
    ):
        store = ReputationStore(clickhouse)
        store.migrate(datetime.now(UTC))
        clickhouse.run(_SIGNALS, signals=signals, identities=identities)
        # In turn: on a busy machine one of them would else have the quieter minute.
        pairs = [(_seconds(clickhouse, _PLAIN), _refresh_seconds(store)) for _ in range(_REPEATS)]
        plain, refresh = (min(seconds) for seconds in zip(*pairs, strict=True))
        if store.scores().height != identities:
            raise AssertionError(f"{store.scores().height} identities have a score")
    return {"plain": plain, "refresh": refresh}


def _seconds(clickhouse: ClickHouse, statement: str) -> float:
    began = perf_counter()
    clickhouse.run(statement)
    return perf_counter() - began


def _refresh_seconds(store: ReputationStore) -> float:
    began = perf_counter()
    store.refresh()
    return perf_counter() - began

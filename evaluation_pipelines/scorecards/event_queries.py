"""Events about effective scores of chosen sessions."""

from evaluation_pipelines.scorecards.ledger.event_store import EvaluationEvent, EventStore
from evaluation_pipelines.sessions.chosen import chosen_of
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter
from evaluation_pipelines.storage.stores import Stores


def events_after(
    stores: Stores, position: int, limit: int, which: SessionFilter
) -> list[EvaluationEvent]:
    """Return the next ``limit`` events of chosen sessions after a position, oldest first.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    store, found = EventStore(stores.ledger), list[EvaluationEvent]()
    while len(found) < limit and (some := store.after(position, limit)):
        found += chosen_of(stores.lake, which, some)
        position = some[-1].position
    return found[:limit]

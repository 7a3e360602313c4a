"""Profiles whose corrections lean one way, read from the stores."""

from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.scorecards.domain.recalibration import Lean, leans
from evaluation_pipelines.scorecards.overrides import overrides_with_states
from evaluation_pipelines.sessions.chosen import rows_of_chosen
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.storage.stores import Stores


def profile_leans(stores: Stores, which: SessionFilter = ALL_SESSIONS) -> list[Lean]:
    """Return the lean of each corrected profile version, and of each criterion named there."""
    registry = ProfileStore(stores.ledger).registry()
    criteria = {each.key: len(each.profile.criterion_ids) for each in registry.versions}
    return leans(rows_of_chosen(stores.lake, which, overrides_with_states(stores)), criteria)

"""Sessions by the beginning of their id or key."""

from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_KEY
from evaluation_pipelines.sessions.domain.find_session import whole_name
from evaluation_pipelines.storage.lake import Lake


def named_session(lake: Lake, name: str, organization: str | None = None) -> str:
    """Return the session key or session id of the lake that ``name`` is, or is the beginning of.

    Raises:
        AmbiguousSessionError: Several sessions begin so.
        LakeError: A file cannot be read.
    """
    windows = lake.read(
        AGENT_SESSIONS, lake.partitions(AGENT_SESSIONS), [*SESSION_KEY, "session_id"]
    )
    if organization is not None:
        windows = windows.filter(organization_id=organization)
    return whole_name(windows, name)

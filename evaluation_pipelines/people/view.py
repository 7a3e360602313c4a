"""What reports show about people: nothing, teams, or individuals."""

from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS
from evaluation_pipelines.settings.data import PeopleView
from evaluation_pipelines.telemetry.domain.forgotten import ATTRIBUTES


def hidden_columns(view: PeopleView) -> frozenset[str]:
    """Return the columns of events and sessions that a report must not show."""
    hidden = {"person": (), "team": ("person",), "off": ("person", "team")}[view]
    columns = (*AGENT_EVENTS.columns, *AGENT_SESSIONS.columns)
    return frozenset(each.name for each in columns if each.people in hidden)


def hidden_attributes(view: PeopleView) -> frozenset[str]:
    """Return the attributes without a column that name people or their machines."""
    return frozenset() if view == "person" else ATTRIBUTES

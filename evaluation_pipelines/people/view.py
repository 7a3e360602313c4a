"""What reports show of people: nothing, teams, or single people."""

from evaluation_pipelines.settings.people import PeopleView
from evaluation_pipelines.telemetry.domain.forgotten import ATTRIBUTES

_OF_PEOPLE = ("person_id", "user_id", "user_email", "account_id", "host_user")
_OF_TEAMS = ("team", "team_id")


def hidden_columns(view: PeopleView) -> frozenset[str]:
    """Return the columns of events and sessions that a report must not show."""
    match view:
        case "person":
            return frozenset()
        case "team":
            return frozenset(_OF_PEOPLE)
        case "off":
            return frozenset((*_OF_PEOPLE, *_OF_TEAMS))


def hidden_attributes(view: PeopleView) -> frozenset[str]:
    """Return the attributes without a column that name people or their machines."""
    return frozenset() if view == "person" else ATTRIBUTES

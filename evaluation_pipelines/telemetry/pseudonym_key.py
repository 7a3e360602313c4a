"""Pseudonyms by the settings of this process."""

from evaluation_pipelines.settings.people import PeopleSettings
from evaluation_pipelines.storage.secret_key import make_key
from evaluation_pipelines.telemetry.domain.pseudonyms import Pseudonyms


def pseudonyms_of(settings: PeopleSettings) -> Pseudonyms | None:
    """Return the pseudonyms by the key of the settings, which is made if it is missing.

    None where ids are stored as they are.

    Raises:
        SecretKeyError: The file of the key has none.
        OSError: It cannot be read or written.
    """
    return Pseudonyms(make_key(settings.pseudonym_key_path)) if settings.pseudonymize else None


def pseudonyms_of_any_time(settings: PeopleSettings) -> Pseudonyms | None:
    """Return the pseudonyms that stored ids may be, also where new ids are stored as they are.

    Raises:
        SecretKeyError: The file of the key has none.
        OSError: It cannot be read or written.
    """
    path = settings.pseudonym_key_path
    return Pseudonyms(make_key(path)) if settings.pseudonymize or path.exists() else None

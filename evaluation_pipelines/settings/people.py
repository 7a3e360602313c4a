"""Settings of people: who is who, and who may be shown by name."""

from typing import Literal, TypeAlias

from pydantic import Field
from pydantic_settings import BaseSettings

from evaluation_pipelines.settings.folder import LocalPath

PeopleView: TypeAlias = Literal["off", "team", "person"]
"""What reports show of people: nothing, teams, or single people."""


class PeopleSettings(BaseSettings):
    """File of the identities, and how much of people reports show."""

    identities_path: LocalPath = Field(
        default_factory=lambda known: known["data_dir"] / "identities.yaml",
        description="file that says which ids belong to which person, see docs/people.md; "
        "`identities.yaml` in the data folder unless set",
    )
    forgotten_key_path: LocalPath = Field(
        default_factory=lambda known: known["data_dir"] / "forgotten.key",
        description="file with the key of the hashes of what was forgotten, made by `forget`; "
        "`forgotten.key` in the data folder unless set",
    )
    pseudonymize: bool = Field(
        default=False,
        description="store keyed hashes in place of e-mails, user ids, host users and host names; "
        "counts for telemetry that is read from then on",
    )
    pseudonym_key_path: LocalPath = Field(
        default_factory=lambda known: known["data_dir"] / "pseudonyms.key",
        description="file with the key of the pseudonyms, made if it is missing; "
        "`pseudonyms.key` in the data folder unless set",
    )
    people_view: PeopleView = Field(
        default="team",
        description="what reports, lists and the analysts' database show of people: nothing "
        "(`off`), teams, or every `person` by name",
    )

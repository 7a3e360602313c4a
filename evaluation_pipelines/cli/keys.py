"""Commands ``keys``: make, list and revoke keys of the service."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from evaluation_pipelines.access.domain.keys import ROLE_MEANINGS, AccessKey, Role
from evaluation_pipelines.access.key_ring import KeyStore, create_key
from evaluation_pipelines.cli.conventions import ListGroup
from evaluation_pipelines.cli.output import OutputFormat, print_error, print_line, print_table
from evaluation_pipelines.cli.rows import FORMAT, record_of, write_rows
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores, read_stores

app = typer.Typer(cls=ListGroup, help="Create, list and revoke keys of the service.")

_ROLES = ". ".join(f"{role}: {meaning}" for role, meaning in ROLE_MEANINGS.items())
_NAMES = (
    *("name", "role", "organization", "state", "created_at", "expires_at", "revoked_at"),
    "key_id",
)
_NAME = typer.Argument(metavar="NAME", help="Who holds the key.")


@app.command("create")
def create(
    name: Annotated[str, _NAME],
    role: Annotated[Role, typer.Option(help=f"{_ROLES}.")],
    organization: Annotated[
        str | None, typer.Option(help="The only organization it can write to and see.")
    ] = None,
    all_organizations: Annotated[
        bool, typer.Option("--all-organizations", help="Give access to every organization.")
    ] = False,
    expires: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="First UTC day on which it is refused."),
    ] = None,
) -> None:
    """Create a key and print it once: only its hash is stored."""
    if (organization is None) != all_organizations:
        raise typer.BadParameter("give either --organization or --all-organizations")
    now = datetime.now(UTC)
    expires_at = expires.replace(tzinfo=UTC) if expires else None
    if expires_at is not None and expires_at <= now:
        raise typer.BadParameter("--expires must be a day in the future")
    with open_stores(load_settings()) as stores:
        text = create_key(stores.ledger, name, role, organization, expires_at=expires_at, now=now)
    print_line(text)
    print_error("This is the only time that the key is shown. Send it as: Authorization: Bearer")


@app.command("list")
def list_keys(form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE) -> None:
    """List all keys, also expired and revoked ones."""
    with read_stores(load_settings()) as stores:
        keys = KeyStore(stores.ledger).all()
    now = datetime.now(UTC)
    if form is not OutputFormat.TABLE:
        write_rows([_record(key, now) for key in keys], form, _NAMES)
    elif keys:
        columns = ("name", "role", "organization", "state", "created", "expires", "id")
        rows = [_cells(key, now) for key in keys]
        print_table("Keys", columns, rows, essential=4)
    else:
        print_line("There are no keys: the service answers programs on this machine only.")


@app.command("revoke")
def revoke(name: Annotated[str, _NAME]) -> None:
    """Revoke a key: running services refuse it within a second or two."""
    with open_stores(load_settings()) as stores:
        KeyStore(stores.ledger).revoke(name, datetime.now(UTC))
    print_line(f"{name} is revoked")


def _state(key: AccessKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "valid" if key.is_valid(now) else "expired"


def _cells(key: AccessKey, now: datetime) -> tuple[object, ...]:
    expires = key.expires_at and f"{key.expires_at:%Y-%m-%d}"
    return (
        *(key.name, key.role, key.organization or "all", _state(key, now)),
        *(f"{key.created_at:%Y-%m-%d}", expires, key.key_id),
    )


def _record(key: AccessKey, now: datetime) -> dict[str, object]:
    values = {**record_of(key), "state": _state(key, now)}
    return {name: values[name] for name in _NAMES}

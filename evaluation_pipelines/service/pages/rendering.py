"""Pages from templates: what stands around every page, and who may see it."""

import hashlib
import hmac
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode

import polars as pl
from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import HTTPConnection

from evaluation_pipelines.access.domain.keys import LOCAL_CALLER, Caller, Role
from evaluation_pipelines.attention.domain.item import Page
from evaluation_pipelines.attention.gather import address_of
from evaluation_pipelines.comparison.domain.compare import Comparison, for_reviewer
from evaluation_pipelines.formatting import DASH, number, percent, points, usd, whole
from evaluation_pipelines.judging.domain.prompt.sanitizer import ShownTexts, shown_texts
from evaluation_pipelines.reporting.domain.book_states import STATES, title_of
from evaluation_pipelines.reporting.pages import TEMPLATES, one_line, script, sentence, style_sheet
from evaluation_pipelines.schemas import AGENT_SESSIONS, Table
from evaluation_pipelines.schemas.judge_score import shown_badge
from evaluation_pipelines.schemas.scorecards import EFFECTIVE_SOURCES
from evaluation_pipelines.scorecards.blind_reviews import waiting_samples
from evaluation_pipelines.scorecards.domain.criteria import criterion_name
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.store import AuditSample
from evaluation_pipelines.service.caller import (
    KEY_COOKIE,
    caller_with,
    hidden_from,
    is_person,
    organization_of,
    person_of,
    sees_texts,
    waiting_for,
)
from evaluation_pipelines.service.errors import ServiceError, not_found
from evaluation_pipelines.service.installation import Installation, installation_of
from evaluation_pipelines.service.kept import PATIENCE_S, Asked, Kept, kept_of
from evaluation_pipelines.service.pages.domain.session_lines import options_of
from evaluation_pipelines.service.routes.common import Organization
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.plain_reasons import plain_reason
from evaluation_pipelines.views.filters import LIST_COLUMNS, ListQuery, parse_query
from evaluation_pipelines.views.listing import parse_order

NAVIGATION = (
    ("Overview", "/"),
    ("Sessions", "/sessions"),
    ("Models", "/models"),
    ("Agents", "/agents"),
    ("Trends", "/trends"),
    ("Tools", "/tools"),
    ("Reviews", "/reviews"),
    ("Operations", "/operations"),
)
"""Title and path of the pages that every page links to."""

OPERATIONS = (
    ("Doctor", "/operations/doctor", True),
    ("Books", "/operations/books", False),
    ("Quarantine", "/operations/quarantine", True),
    ("Judge", "/operations/judge", False),
)
"""Title and path of the parts of Operations, and whether one is of all organizations together."""

_TEMPLATES = Path(__file__).parent / "templates"

_for_reviewer = lru_cache(maxsize=8)(for_reviewer)
"""The same object for the same reviewers, since what is drawn of a comparison is kept with it."""


_OF_ONE = ("/sessions/", "/agents/")
"""Paths of pages of one session or agent."""


@dataclass(frozen=True)
class Frame:
    """What stands around the content of a page.

    Attributes:
        request: The request of the page.
        caller: Who asks; ``None`` if that is unknown.
        organization: The only organization that is shown; ``None`` for all.
    """

    request: HTTPConnection
    caller: Caller | None = None
    organization: str | None = None

    @property
    def path(self) -> str:
        """Path of the page as a route reads it, to mark it in the navigation."""
        return str(self.request.scope["path"])

    @property
    def path_url(self) -> str:
        """The path of the page as a part of a URL: keys of sessions contain ``#``."""
        return quote(self.path)

    @property
    def address(self) -> str:
        """The address of this service as the visitor reaches it, where agents can send, too."""
        return str(self.request.base_url).rstrip("/")

    @property
    def navigation(self) -> tuple[tuple[str, str, bool], ...]:
        """Title and URL of the other pages, and whether this one is of their kind."""
        return tuple((title, self.url(path), self._is_under(path)) for title, path in NAVIGATION)

    @property
    def operations(self) -> tuple[tuple[str, str, bool], ...]:
        """Title and URL of the parts of Operations that the caller may see; whether it is this."""
        sees_all = self.caller is not None and self.caller.organization is None
        return tuple(
            (title, self.url(path), self._is_under(path))
            for title, path, is_of_all in OPERATIONS
            if sees_all or not is_of_all
        )

    def _is_under(self, path: str) -> bool:
        return self.path == path or (path != "/" and self.path.startswith(f"{path}/"))

    @property
    def is_open(self) -> bool:
        """True if there are no keys, so that programs of this machine may do everything."""
        return self.caller is LOCAL_CALLER

    @cached_property
    def organizations(self) -> list[str]:
        """Organizations to choose from; empty if the caller sees one alone, or without sessions."""
        if self.caller is None or self.caller.organization is not None:
            return []
        try:
            found = kept_of(self.request).sessions.organizations()
        except LakeError:  # the page says which file cannot be read
            return []
        return found if len(found) > 1 else []

    @property
    def built_at(self) -> datetime | None:
        """When the sessions that the page shows were built last; ``None``: never, or unknown."""
        if self.caller is None:
            return None
        try:
            return Manifest(installation_of(self.request).stores.ledger).newest(AGENT_SESSIONS.name)
        except LedgerError:  # the page says so
            return None

    @property
    def kept_query(self) -> list[tuple[str, str]]:
        """Fields of the query that stay when another organization is chosen."""
        query = self.request.query_params.multi_items()
        return [(name, value) for name, value in query if name not in {"organization", "cursor"}]

    @property
    def sees_texts(self) -> bool:
        """True if the caller may read texts."""
        return self.caller is not None and sees_texts(self.caller)

    @property
    def form_token(self) -> str:
        """The token that every form of the page sends."""
        return form_token(self.request)

    def url(self, path: str, **query: str | int | None) -> str:
        """Return the URL of a page for the organization that is shown."""
        given = {"organization": self.chosen, **query}
        sent = {name: value for name, value in given.items() if value is not None}
        return f"{path}?{urlencode(sent)}" if sent else path

    def here(self, **changes: str | None) -> str:
        """Return the URL of this page with some fields of the query changed, from its beginning."""
        query = dict(self.request.query_params) | {"cursor": None} | changes
        sent = {name: value for name, value in query.items() if value}
        return f"{self.path_url}?{urlencode(sent)}" if sent else self.path_url

    def link(self, page: Page) -> str:
        """Return the URL of a page of an item, for the organization that is shown."""
        if page.server:
            return address_of(page)
        given, path = dict(page.query), address_of(replace(page, query=()))
        if path.startswith(_OF_ONE):
            return self._owned_url(path, given.get("organization"))
        return self.url(path, **given)

    def session_url(self, organization: str, session_key: str, view: str = "") -> str:
        """Return the URL of a session; several organizations may have one of that key."""
        path = f"/sessions/{quote(session_key, safe='')}{f'/{view}' if view else ''}"
        return self._owned_url(path, organization)

    def agent_url(self, name: str, organization: str | None = None) -> str:
        """Return the URL of an agent; without an organization in those that are shown."""
        return self._owned_url(f"/agents/{quote(name, safe='')}", organization)

    def _owned_url(self, path: str, owner: str | None) -> str:
        """Return the URL of something of an organization, which leaves the choice as it is."""
        is_named = owner and self.caller and self.caller.organization is None
        query = {"organization": owner if is_named else None, "chosen": self.chosen}
        sent = {name: value for name, value in query.items() if value}
        return f"{path}?{urlencode(sent)}" if sent else path

    def run_url(self, table: Table, day: date) -> str | None:
        """Return the URL of a partition and its run in Dagster's interface.

        ``None`` if its URL is not set, or the caller sees one organization alone.
        """
        base = installation_of(self.request).settings.dagster_url
        if base is None or self.caller is None or self.caller.organization is not None:
            return None
        return f"{base}/assets/{table.name}?view=partitions&partition={day}"

    @property
    def chosen(self) -> str | None:
        """The organization that the visitor chose to see alone; ``None`` for all.

        On the page of a session or an agent the organization only says whose it is.
        """
        if self.caller and self.caller.organization:
            return None
        if self.path.startswith(_OF_ONE):
            return self.request.query_params.get("chosen") or None
        return self.organization


@dataclass(frozen=True)
class Visit:
    """A request for a page, by a caller who may see it."""

    request: Request
    installation: Installation
    frame: Frame
    caller: Caller

    @property
    def stores(self) -> Stores:
        """The stores of the installation."""
        return self.installation.stores

    @property
    def kept(self) -> Kept:
        """What the service keeps in memory."""
        return kept_of(self.request)

    @property
    def organization(self) -> str | None:
        """The only organization to show; ``None`` for all."""
        return self.frame.organization

    @property
    def sees_texts(self) -> bool:
        """True if the caller may read texts."""
        return self.frame.sees_texts

    @property
    def shown_texts(self) -> ShownTexts | None:
        """Makes texts fit to be shown; ``None`` if the visitor may see none."""
        personal = self.installation.settings.judge_redact_personal
        return shown_texts(personal) if self.sees_texts else None

    @property
    def hidden(self) -> frozenset[str]:
        """Columns of people and teams that are not shown."""
        return hidden_from(self.caller, self.installation.settings.people_view)

    def is_own(self, person_id: str | None) -> bool:
        """Return True if a person is the visitor, by the name of the key or of the proxy's user."""
        return is_person(person_id, self._person)

    @cached_property
    def _person(self) -> str:
        return person_of(self.stores, self.caller, self.installation.clock().date())

    @cached_property
    def waiting(self) -> frozenset[SessionKey]:
        """The sessions whose scores are withheld, since the visitor may review them blind."""
        return waiting_for(self.request, self.caller)

    @property
    def to_review(self) -> list[AuditSample]:
        """The samples to review, the oldest first.

        A reviewer who has seen the score of one is not asked: their list of sessions shows it.
        """
        seen = self.kept.reviews.waiting() - self.waiting if self.sees_texts else ()
        samples = waiting_samples(self.stores, self.organization)
        return [sample for sample in samples if sample.key not in seen]

    def rows(self) -> pl.DataFrame:
        """Return a row for each session that the caller sees, the newest first.

        Scores of sessions that wait for a blind review are null, in sums and means, too: the score
        of one follows from a mean and those of the others.
        """
        return self._rows

    @cached_property
    def _rows(self) -> pl.DataFrame:
        rows = self.kept.sessions.rows(self.waiting, self.installation.clock())
        return rows if self.organization is None else rows.filter(organization_id=self.organization)

    def comparison(
        self, asked: Asked | None = None, patience_s: float = PATIENCE_S
    ) -> Comparison | None:
        """Return a comparison, usually of the last 28 days; ``None`` until it is computed."""
        asked = Asked(self.organization) if asked is None else asked
        found = self.kept.comparisons.get(asked, self.installation.clock(), patience_s)
        return None if found is None else _for_reviewer(found, self.waiting)

    async def computed_comparison(self, asked: Asked) -> Comparison:
        """Return a comparison when it is computed; raises as ``RecentResults.answer``."""
        found = await self.kept.comparisons.answer(asked, self.installation.clock())
        return _for_reviewer(found, self.waiting)

    def page(self, template: str, status: int = 200, **content: Any) -> HTMLResponse:
        """Return a page."""
        return render(self.frame, template, content, status)


def render(
    frame: Frame, template: str, content: Mapping[str, Any], status: int = 200
) -> HTMLResponse:
    """Return a page from a template, the frame and its content; texts are escaped."""
    found = _environment().get_template(f"{template}.html")
    return HTMLResponse(found.render(content, frame=frame), status)


def download(name: str, text: str) -> Response:
    """Return a CSV file to save under a name."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="text/csv", headers=headers)


def invalid_field(message: object) -> ServiceError:
    """Return the answer to a field of the URL that cannot have its value."""
    return ServiceError(400, "invalid_request", f"{message}.")


def asked_sessions(visit: Visit, *orders: Any) -> ListQuery:
    """Return which sessions the fields of the URL ask for; ``orders`` as for ``parse_query``.

    Raises:
        ServiceError: 400, a field cannot have its value, or names people that are not shown.
    """
    try:
        query = parse_query(visit.request.query_params, *orders)
    except ValueError as error:
        raise invalid_field(error) from error
    hidden = {name for name in query.values if LIST_COLUMNS[name] in visit.hidden}
    if hidden - ({"person"} if visit.is_own(query.values.get("person")) else set()):
        raise invalid_field("People and teams are not shown here")
    return query


def asked_order(visit: Visit, columns: Collection[str], usual: str, field: str = "sort") -> str:
    """Return the order that a field of the URL asks for, as ``parse_order``.

    Raises:
        ServiceError: 400, there is no such order.
    """
    try:
        return parse_order(visit.request.query_params.get(field), columns, usual)
    except ValueError as error:
        raise invalid_field(error) from error


def visit_with(role: Role) -> Any:
    """Return the dependency of a page or form that needs ``role``."""

    def visit(
        request: Request,
        caller: Annotated[Caller, Depends(caller_with(role))],
        organization: Organization = None,
    ) -> Visit:
        shown = organization_of(caller, organization or None)
        return Visit(request, installation_of(request), Frame(request, caller, shown), caller)

    return Depends(visit)


Visitor = Annotated[Visit, visit_with(Role.READER)]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader([_TEMPLATES, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["line"] = one_line
    environment.filters["sentence"] = sentence
    environment.filters["criterion"] = criterion_name
    environment.filters["known"] = lambda value: DASH if value is None else value
    environment.filters["percent"] = percent
    environment.filters["points"] = points
    environment.filters["state"] = title_of
    environment.filters["meaning"] = lambda state: STATES[state].meaning
    environment.filters["reason"] = plain_reason
    environment.filters["badge"] = shown_badge
    environment.filters["source"] = lambda value: EFFECTIVE_SOURCES.get(value, value)
    environment.filters["points2"] = partial(number, decimals=2)
    environment.filters["plain"] = "{:g}".format
    environment.filters["usd"] = usd
    environment.filters["whole"] = whole
    environment.filters["options"] = lambda values, name: options_of(name, values)
    environment.filters["repeated"] = lambda value: (value, value)
    environment.filters["time"] = "{:%Y-%m-%d %H:%M}".format
    environment.filters["second"] = "{:%Y-%m-%d %H:%M:%S}".format
    environment.globals["static_url"] = static_url
    return environment


ROUTER = APIRouter(include_in_schema=False)

_FOLDER = Path(__file__).parent / "static"
_MEDIA_TYPES = {
    "pages.css": "text/css",
    "pages.js": "text/javascript",
    "reviews.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


def static_url(name: str) -> str:
    """Return the URL of a file; another content has another one."""
    return f"/static/{name}?{hashlib.sha256(_content(name)).hexdigest()[:12]}"


@ROUTER.get("/static/{name}")
def static_file(name: str) -> Response:
    """Return a file of the pages. Needs no key."""
    if name not in _MEDIA_TYPES:
        raise not_found("The file")
    kept = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(_content(name), media_type=_MEDIA_TYPES[name], headers=kept)


@cache
def _content(name: str) -> bytes:
    own = (_FOLDER / name).read_bytes()
    common = {"pages.css": style_sheet, "pages.js": script}.get(name)
    return own if common is None else common().encode() + own


TOKEN_FIELD = "form_token"  # noqa: S105 - the name of the field

_MAX_FIELDS = 50
_OF_PROCESS = secrets.token_hex(32)
"""Secret behind the tokens of visitors who have not logged in."""


def form_token(connection: HTTPConnection) -> str:
    """Return the token of the forms of one browser: only who knows its cookie can make it."""
    secret = connection.cookies.get(KEY_COOKIE) or _OF_PROCESS
    return hmac.digest(secret.encode(), TOKEN_FIELD.encode(), "sha256").hex()


async def sent_fields(request: Request) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        ServiceError: 400, it is no form; 403, no page of ours sent it.
    """
    try:
        text = (await request.body()).decode()
        fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise ServiceError(400, "invalid_request", "The form cannot be read.") from error
    if not hmac.compare_digest(fields.pop(TOKEN_FIELD, "").encode(), form_token(request).encode()):
        raise ServiceError(
            403,
            "form_expired",
            "After this page was loaded, the service restarted or this browser logged in or out.",
            "Go back, load the page again and send the form again.",
        )
    return fields


Fields: TypeAlias = Annotated[dict[str, str], Depends(sent_fields)]

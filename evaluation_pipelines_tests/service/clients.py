"""Clients of a service that runs within the test."""

import re
from collections.abc import Callable
from datetime import datetime
from itertools import count
from typing import Any, TypeAlias

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.access.key_ring import KeyRing, create_key
from evaluation_pipelines.service.app import create_app
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines_tests.workplace import NOW, Workplace

ADDRESS = "http://localhost:8400"

Keys: TypeAlias = dict[tuple[Role, str | None], str]
"""Keys by role and organization; ``None``: of all."""
Clients: TypeAlias = dict[str, TestClient]
"""Clients by role of their key."""
Browse: TypeAlias = Callable[..., TestClient]
"""Gives the browser of a role and an organization."""


class Service:
    """The service of a workplace; time stands still."""

    def __init__(self, workplace: Workplace, now: datetime = NOW, **options: Any) -> None:
        self.workplace = workplace
        # A second passes with each question: new and revoked keys count at once.
        keys = KeyRing(workplace.ledger, lambda: NOW, count().__next__)
        self.app = create_app(Installation(workplace.stores, keys, lambda: now), **options)

    def client(self, key: str | None = None, peer: str = "127.0.0.1") -> TestClient:
        """Return a client at an address, with a key or without."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return TestClient(
            self.app, ADDRESS, headers=headers, client=(peer, 50_000), raise_server_exceptions=False
        )

    def browser(self, key: str | None = None) -> TestClient:
        """Return a client that asks for pages, as a browser does."""
        client = self.client(key)
        client.headers["Accept"] = "text/html"
        return client

    def key(self, role: Role, organization: str | None = None, **options: Any) -> str:
        """Make a key that is named after its role and organization."""
        name = f"{role}-{organization or 'all'}".replace("/", "-")
        return create_key(self.workplace.ledger, name, role, organization, now=NOW, **options)


def denial(client: TestClient, url: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    """Return status and code of the answer to a WebSocket that is refused."""
    with (
        pytest.raises(WebSocketDenialResponse) as refused,
        client.websocket_connect(url, headers=headers or {}),
    ):
        pass
    return refused.value.status_code, str(refused.value.json()["error"]["code"])


def form_token(client: TestClient, page: str) -> dict[str, str]:
    """Return the field that a form of a page must send back."""
    found = re.search(r'form_token" value="(\w+)"', client.get(page).text)
    assert found
    return {"form_token": found[1]}

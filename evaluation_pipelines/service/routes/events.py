"""Events over a WebSocket."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Annotated

import anyio
from fastapi import APIRouter, Depends, WebSocket
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocketDisconnect

from evaluation_pipelines.access.domain.keys import Caller, Role
from evaluation_pipelines.service.caller import (
    caller_with,
    check_all_organizations,
    check_known,
    sees_people,
    waiting_for,
)
from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.events import UnknownChannelError, parse_channel
from evaluation_pipelines.service.live import Live, live_of
from evaluation_pipelines.service.routes.common import Here, row_number

ROUTER = APIRouter(tags=["events"])

_CHECK_CALLER_S = 15.0
"""How long a listener whose key was revoked may still listen."""

_NOT_ALLOWED = 1008
_TOO_MANY = 429

_listener = caller_with(Role.READER)


@ROUTER.websocket("/api/v1/events")
async def events(
    websocket: WebSocket,
    here: Here,
    live: Annotated[Live, Depends(live_of)],
    caller: Annotated[Caller, Depends(_listener)],
    channel: str = "",
    after: str | None = None,
) -> None:
    """Send the events of a channel as JSON, one a message, until the listener closes."""
    try:
        chosen = parse_channel(channel, caller.organization)
    except UnknownChannelError as error:
        raise ServiceError(400, "unknown_channel", str(error)) from error
    if channel == "alerts":  # they are not kept by organization
        check_all_organizations(caller)
        names_people = sees_people(caller, here.settings.people_view)
        chosen = replace(chosen, hides_people=not names_people)
    if chosen.session is not None:
        await run_in_threadpool(check_known, here.stores, caller, chosen.session)
    position, waiting = _position(after), partial(waiting_for, websocket, caller)
    await websocket.accept()
    steps = (
        partial(_send, live.hub.messages(chosen, position, waiting), websocket),
        partial(_until_closed, websocket),
        partial(_close_when_refused, websocket, caller),
    )
    async with anyio.create_task_group() as running:

        async def run(step: Callable[[], Awaitable[None]]) -> None:
            with suppress(WebSocketDisconnect):
                await step()
            running.cancel_scope.cancel()  # the first that ends, ends all

        for step in steps:
            running.start_soon(run, step)


def _position(after: str | None) -> int | None:
    if after is None:
        return None
    position = row_number(after)
    if position is None:
        raise ServiceError(400, "invalid_request", "query.after: is no id of an event")
    return position


async def _send(messages: AsyncGenerator[str, None], websocket: WebSocket) -> None:
    async with aclosing(messages):
        async for text in messages:
            await websocket.send_text(text)


async def _until_closed(websocket: WebSocket) -> None:
    """Wait until the listener closes; what it sends is ignored."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


async def _close_when_refused(websocket: WebSocket, caller: Caller) -> None:
    """Close when the key of the listener is no longer accepted, or is another's."""
    is_same = True
    while is_same:
        await asyncio.sleep(_CHECK_CALLER_S)
        try:
            is_same = await asyncio.to_thread(_listener, websocket) == caller
        except ServiceError as error:
            is_same = error.status_code == _TOO_MANY
    await websocket.close(_NOT_ALLOWED, "the key is no longer accepted")

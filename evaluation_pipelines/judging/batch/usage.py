"""Token counts of replies in a batch, compared with the requests, as those of direct calls are."""

import json
from contextlib import suppress
from typing import TypeAlias

from evaluation_pipelines.judging.domain.budget.pricing import Usage
from evaluation_pipelines.judging.domain.budget.usage import Exchange
from evaluation_pipelines.judging.domain.prompt.messages import Message, Reply
from evaluation_pipelines.judging.domain.prompt.tokens import (
    estimated_message_tokens,
    estimated_tokens,
)
from evaluation_pipelines.judging.endpoint.batch_api import BatchApi, BatchApiError

_Sizes: TypeAlias = dict[str, tuple[int, int]]
"""Bytes and estimated tokens of a request, by its custom id."""

_UNKNOWN_BYTES = 10**15

_NO_REQUEST = (ValueError, RecursionError, TypeError, KeyError, AttributeError)
"""What a line raises that is not as it was sent."""


class SentRequests:
    """Sizes of the requests of a batch; its file is read again only when a count is suspicious."""

    def __init__(self, api: BatchApi, file_id: str | None, max_output_tokens: int) -> None:
        self._api, self._file_id, self._most = api, file_id, max_output_tokens
        self._sizes: _Sizes | None = None

    def checked(
        self, custom_id: str, reply: Reply, usage: Usage | None, *, is_too_dear: bool
    ) -> tuple[Usage | None, bool]:
        """Return the tokens of a reply, and whether they are estimated.

        Args:
            custom_id: The request.
            reply: The reply.
            usage: The reported tokens; ``None`` if there are none.
            is_too_dear: Whether they cost more than was reserved.

        Returns:
            ``None`` for impossible tokens of a request that the file does not have.

        Raises:
            BatchApiError: The file cannot be read now.
        """
        if usage is None or not (
            is_too_dear or not self._exchange(_UNKNOWN_BYTES, 0, reply).is_possible(usage)
        ):
            return usage, False
        if self._sizes is None:
            self._sizes = self._read()
        if custom_id not in self._sizes:
            return None, False
        exchange = self._exchange(*self._sizes[custom_id], reply)
        return (usage, False) if exchange.is_possible(usage) else (exchange.estimate(), True)

    def _exchange(self, sent_bytes: int, sent_tokens: int, reply: Reply) -> Exchange:
        return Exchange(
            sent_bytes,
            sent_tokens,
            reply_bytes=len(reply.text.encode()),
            reply_tokens=estimated_tokens(reply.text),
            max_output_tokens=self._most,
        )

    def _read(self) -> _Sizes:
        sizes: _Sizes = {}
        if self._file_id is None:
            return sizes
        try:
            for line in self._api.lines(self._file_id):
                with suppress(*_NO_REQUEST):
                    request = json.loads(line)
                    sent = [Message(**each) for each in request["body"]["messages"]]
                    length = sum(len(each.content.encode("utf-8", "replace")) for each in sent)
                    sizes[request["custom_id"]] = length, estimated_message_tokens(sent)
        except BatchApiError as error:
            if not error.is_missing:
                raise
        return sizes

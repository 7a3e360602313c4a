"""Pages that show changes of the judge."""

import time

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.judge_changes.write import write_judge_changes
from evaluation_pipelines_tests.judged import Judged
from evaluation_pipelines_tests.service.clients import Service


class ChangePages:
    """Pages over the sessions and changes that there are now."""

    def __init__(self, judged: Judged) -> None:
        judged.workplace.build()
        write_judge_changes(judged.workplace.stores, judged.now)
        service = Service(judged.workplace)
        self._clients = {
            owner: service.client(service.key(Role.READER, owner)) for owner in (None, "default")
        }

    def of(self, url: str, organization: str | None = None) -> str:
        """Return a page when all of it is computed, as the reader of an organization sees it."""
        client = self._clients[organization]
        while "data-reload-after" in (page := client.get(url).text):
            time.sleep(0.05)
        return page

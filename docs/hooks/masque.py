# ruff: noqa: INP001, UP017 - copied to ~/.claude/hooks, for any Python 3
"""Write an attribution line when a session starts, and one when it ends."""

import json
import os
import sys
from datetime import datetime, timezone
from pathlib import Path

told = Path(os.environ["MASQUE_LINES"])
event = json.load(sys.stdin)
line = {"session_id": event["session_id"], "masque": os.environ.get("MASQUE")}
if line["masque"]:
    now = datetime.now(timezone.utc).isoformat()
    if event["hook_event_name"] == "SessionEnd":
        lines = [json.loads(written) for written in told.read_text().splitlines()]
        dons = [said["donned_at"] for said in lines if line.items() <= said.items()]
        line |= {"donned_at": dons[-1] if dons else now, "doffed_at": now}
    else:
        line["donned_at"] = now
    with told.open("a") as file:
        file.write(json.dumps(line) + "\n")

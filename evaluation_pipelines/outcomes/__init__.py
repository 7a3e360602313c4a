"""What happened to the work of sessions: from telemetry, from git, and from outside."""

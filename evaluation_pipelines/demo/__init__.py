"""The demo: ``landing`` has real samples and the recording of a team, ``judge_demo`` its judge."""

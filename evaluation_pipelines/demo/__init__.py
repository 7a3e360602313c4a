"""The demo: samples of real telemetry and the recording of a team, judged by a script."""

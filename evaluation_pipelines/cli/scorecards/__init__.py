"""Commands about scorecards, profiles, overrides and audits."""

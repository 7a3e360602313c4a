"""Commands about the judge: runs, lists of scores, validation."""

"""People, their ids and teams, and the parser of the identities file."""

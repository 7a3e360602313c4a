"""People: who a session belongs to, by the identities file, and pseudonyms."""

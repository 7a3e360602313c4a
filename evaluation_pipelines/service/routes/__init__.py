"""Routes of the API: a module for each subject, ``common`` is shared."""

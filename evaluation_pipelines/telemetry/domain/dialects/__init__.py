"""Dialects: a folder for each agent program, ``registry`` lists them, ``program`` is their form."""

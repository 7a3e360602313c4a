"""Web pages: a module with its ``ROUTER`` for each, which ``rendering`` renders."""

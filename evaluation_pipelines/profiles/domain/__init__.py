"""Judge profiles, their registry, and computed criteria."""

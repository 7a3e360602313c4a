"""Lines that could not be read: listed, and read again."""

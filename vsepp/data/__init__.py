"""From raw files to tables, tokens and decoded images."""

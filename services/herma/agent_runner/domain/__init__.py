"""The rules of a turn.  No I/O."""

"""The rules of sandboxes.  No I/O."""

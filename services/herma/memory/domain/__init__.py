"""Rules of memory: no I/O."""

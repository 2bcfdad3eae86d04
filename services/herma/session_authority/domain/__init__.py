"""The rules of the ledger.  No I/O."""

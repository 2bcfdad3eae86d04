"""agent-runner: folds turns over their ledgers.  Owns no facts; any number of them may run."""

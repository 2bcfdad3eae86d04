"""session-authority: the only writer of session facts.  Stateless; PostgreSQL is the truth."""

"""`herma chat`: a conversation at a terminal, or one question from a pipe."""

"""gateway: turns inputs into identified submissions, and renders events.  It runs no agent."""

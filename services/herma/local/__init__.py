"""`herma up`: the whole platform on one machine, nothing installed."""

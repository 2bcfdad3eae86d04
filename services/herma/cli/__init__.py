"""The command line `herma`."""

"""`python -m herma.cli`."""

from herma.cli.main import main

main()

"""`python -m herma.memory`."""

from herma.memory.app import main

main()

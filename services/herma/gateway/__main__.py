"""`python -m herma.gateway`."""

from herma.gateway.app import main

main()

"""`python -m herma.session_authority`."""

from herma.session_authority.app import main

main()

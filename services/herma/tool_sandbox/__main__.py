"""`python -m herma.tool_sandbox`."""

from herma.tool_sandbox.app import main

main()

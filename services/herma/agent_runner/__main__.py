"""`python -m herma.agent_runner`."""

from herma.agent_runner.app import main

main()

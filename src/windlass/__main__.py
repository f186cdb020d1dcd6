"""`python -m windlass` is `windlass`."""

from windlass.cli import main

main()

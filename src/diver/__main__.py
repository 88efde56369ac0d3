"""`python -m diver` is the command `diver`."""

from diver.cli import main

main()

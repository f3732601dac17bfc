"""`python -m mast` is the command `mast`."""

from .cli import main

if __name__ == "__main__":
    main()

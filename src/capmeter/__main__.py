"""`python -m capmeter`: the command line."""

from capmeter.cli.main import main

if __name__ == "__main__":
    main()

"""`python -m fewpass`: the command line, where its script is on no path."""

from fewpass.flows.cli import command_line

if __name__ == "__main__":
    command_line()

"""`python -m dlpipe` is the program `dlpipe`: the same options, output and exit codes."""

import os
import sys


def main():
    """Becomes the program; does not return."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "dlpipe")
    os.execv(program, ["dlpipe", *sys.argv[1:]])


if __name__ == "__main__":
    main()

"""``python -m kernwright …``: the command-line program, in place of this process."""

import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).resolve().parent / "bin" / "kernwright"
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()

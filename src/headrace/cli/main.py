"""The door of the `headrace` command.

`serve` goes straight to its own small parser, because a node would otherwise carry typer and rich for its
whole life. Everything else goes to the typer application.
"""

import sys


def run() -> None:
    """The console script. Never returns: exits with the status of the command."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"]:
        from headrace.cli.serve import main

        sys.exit(main(arguments[1:]))

    from headrace.cli.app import app

    app(prog_name="headrace")


if __name__ == "__main__":
    run()

"""Packages that only some commands need, and what to say where one is missing."""

import importlib

from headrace.cli.output import CommandError


def require(package: str, *, extra: str) -> None:
    """Have a package loaded, or tell how to get it."""
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise CommandError(f"{package} is not installed ({error}): pip install 'headrace[{extra}]'") from None

"""Lives of groups that are lived at the same time: most of a life is waiting for sessions and for one another."""

import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self

import pytest

Life = Callable[[str, str], None]  # Given where the broker is, and a name for the group and its topic.


class LivesAtOnce:
    """Begins all lives that are wanted, so many at a time; each is asked for its end on its own."""

    def __init__(self, bootstrap: str, lives: Mapping[str, Life], *, at_once: int) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="life")
        self._lives: dict[str, Future[None]] = {
            name: self._pool.submit(life, bootstrap, legal_name(name)) for name, life in lives.items()
        }

    def end_of(self, name: str) -> None:
        """Returns when that life went well, and raises what went wrong."""
        self._lives[name].result()

    def wait_all(self) -> None:
        wait(self._lives.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


def wanted(request: pytest.FixtureRequest, lives: Mapping[str, Life], *, where: str | None = None) -> dict[str, Life]:
    """Those that the selected tests of this module are going to ask for, by their parameter `life`."""
    asked: dict[str, Life] = {}
    for item in request.session.items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if item.path == request.path and "life" in params and params.get("where", where) == where:
            asked[params["life"]] = lives[params["life"]]
    return asked


def legal_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9-]", "-", name)


def named(prefix: str, lives: Iterable[tuple[str, Life]]) -> dict[str, Life]:
    return {f"{prefix} {name}": life for name, life in lives}

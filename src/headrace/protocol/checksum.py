"""CRC-32C by the `crc32c` package's extension, without the rest of that package.

Its `__init__` asks `importlib.metadata` for its own version and imports a command line: together a third of the time
that a node takes to start, for nothing that we use. The extension is loaded by itself; where that cannot be done, the
package is imported as usual.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

from headrace.ports import Buffer


def _load() -> Callable[[Buffer], int]:
    package = PathFinder.find_spec("crc32c")
    locations = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("_crc32c", locations) if locations else None
    if spec is None or spec.loader is None:
        from crc32c import crc32c as packaged

        return packaged
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    loaded: Callable[[Buffer], int] = module.crc32c
    return loaded


crc32c: Callable[[Buffer], int] = _load()

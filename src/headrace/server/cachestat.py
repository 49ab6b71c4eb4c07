"""Asks the kernel whether a range of a file is in the page cache: cachestat(2), Linux 6.5 and later.

The call has no name in the standard library, so it goes through ctypes, which costs milliseconds and
megabytes to import: `disk.py` imports this module when it is first asked about a range, and not before.
`preadv2(RWF_NOWAIT)` is older, but it would read what we only want to send.
"""

import ctypes
import os
import sys
from collections.abc import Callable

# The same number on every architecture that Python has wheels for; the list says where that was looked up.
_CACHESTAT = 451
_MACHINES = {"x86_64", "aarch64", "riscv64", "ppc64le", "s390x"}

RangeCached = Callable[[int, int, int], bool]


def load_range_cached(descriptor: int) -> RangeCached | None:
    """`range_cached(descriptor, position, size)`, or None where the kernel (or a sandbox) refuses the call.

    The given descriptor, any file open for writing, is what the call is tried on. Pages still being read from
    the device count as cached, so a yes can rarely mean a short wait.
    """
    if sys.platform != "linux" or os.uname().machine not in _MACHINES:
        return None
    # PyDLL keeps the interpreter lock: giving it up for a call this short costs more than the call.
    syscall = ctypes.PyDLL(None).syscall
    asked = (ctypes.c_uint64 * 2)()  # struct cachestat_range: offset, length.
    told = (ctypes.c_uint64 * 5)()  # struct cachestat: cached, dirty, writeback, evicted, recently evicted.
    # Arguments made once: declaring their types and converting them on every call takes half as long again.
    number, asked_at, told_at, flags = (
        ctypes.c_long(_CACHESTAT),
        ctypes.c_void_p(ctypes.addressof(asked)),
        ctypes.c_void_p(ctypes.addressof(told)),
        ctypes.c_long(0),
    )
    page_bytes = os.sysconf("SC_PAGESIZE")

    def range_cached(descriptor: int, position: int, size: int) -> bool:
        asked[0] = position
        asked[1] = size
        if syscall(number, descriptor, asked_at, told_at, flags):
            return False
        pages = (position + size - 1) // page_bytes - position // page_bytes + 1
        return told[0] == pages

    if syscall(number, descriptor, asked_at, told_at, flags):
        return None
    return range_cached

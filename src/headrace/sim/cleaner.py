"""The Cleaner port in a seeded world: the same compaction, a step at a time on the simulated disk.

Each step takes its time, so that everything else happens in between, and the power fails in the middle of it.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TypeVar

from headrace.errors import CorruptBatch, StorageError
from headrace.ports import Cleaned, CleanJob, File, MapJob, Mapped, Readable
from headrace.sim.disk import SimDisk
from headrace.storage.compaction import clean_segments, map_keys
from headrace.storage.key_map import KeyMap
from headrace.storage.segment import CLEANED_SUFFIX, LOG_SUFFIX, Segment, segment_name

STEP_US_LEAST, STEP_US_MOST = 10, 5_000

R = TypeVar("R")


class SimCleaner:
    def __init__(self, disk: SimDisk) -> None:
        """It lives as long as the disk does, which ends with the process of its node."""
        self._disk = disk
        self._keys: KeyMap | None = None

    def map_then(self, job: MapJob, done: Mapped) -> None:
        keys = self._keys = KeyMap(start_offset=job.start_offset, bytes_max=job.memory_bytes_max)
        self._drive(map_keys(self._sources(job.directory, job.bases), keys, end_offset=job.end_offset), done)

    def clean_then(self, job: CleanJob, targets: Sequence[File], done: Cleaned) -> None:
        assert self._keys is not None
        assert all(target.size == 0 for target in targets)
        steps = clean_segments(
            self._sources(job.directory, job.bases),
            Segment(self._disk, job.directory, job.bases[0], created_ms=job.now_ms, suffix=CLEANED_SUFFIX),
            self._keys,
            remembered_offsets=frozenset(job.remembered_offsets),
            now_ms=job.now_ms,
            delete_retention_ms=job.delete_retention_ms,
            index_interval_bytes=job.index_interval_bytes,
        )
        self._drive(steps, done)

    def _sources(self, directory: str, bases: Sequence[int]) -> list[Callable[[], Readable]]:
        return [partial(self._disk.open, f"{directory}/{segment_name(base)}{LOG_SUFFIX}") for base in bases]

    def _drive(self, steps: Generator[int, None, R], done: Callable[[R | Exception], None]) -> None:
        def step() -> None:
            try:
                next(steps)
            except StopIteration as end:
                done(end.value)
            except (StorageError, CorruptBatch, FileNotFoundError) as error:
                done(StorageError(str(error)) if isinstance(error, FileNotFoundError) else error)
            else:
                self._step_later(step)

        self._step_later(step)

    def _step_later(self, step: Callable[[], None]) -> None:
        self._disk.later(self._disk.world.delay_us(least=STEP_US_LEAST, most=STEP_US_MOST), step)

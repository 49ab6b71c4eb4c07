"""The load runs with the librdkafka that it should, and is built anew when that changes."""

import shutil
from pathlib import Path

import confluent_kafka

from bench.load_program import allocator_of, build_load, bundled_librdkafka, jemalloc, librdkafka_version


def test_the_load_runs_with_the_library_of_the_wheel(load_program: Path) -> None:
    library = bundled_librdkafka()
    assert library is not None, "this environment's confluent-kafka was not installed from a wheel"
    assert librdkafka_version(load_program) == confluent_kafka.libversion()[0]


def test_another_library_means_another_build(load_program: Path, tmp_path: Path) -> None:
    library = bundled_librdkafka()
    assert library is not None
    newer = tmp_path / library.name
    newer.write_bytes(library.read_bytes() + b"\0")  # Changed, and as good: nothing reads past an ELF file's sections.
    rebuilt = build_load(newer, jemalloc())
    try:
        assert rebuilt != load_program
        assert rebuilt.with_name(library.name).read_bytes() == newer.read_bytes()
    finally:
        shutil.rmtree(rebuilt.parent)


def test_without_a_wheel_the_load_runs_with_the_library_of_the_system(load_program: Path) -> None:
    of_system = build_load(None, None)
    assert of_system != load_program
    assert not list(of_system.parent.glob("librdkafka*"))
    assert librdkafka_version(of_system)


def test_the_load_says_which_allocator_it_runs_with(load_program: Path) -> None:
    assert allocator_of(load_program).startswith("jemalloc" if jemalloc() else "libc")
    assert allocator_of(build_load(None, None)) == "libc"

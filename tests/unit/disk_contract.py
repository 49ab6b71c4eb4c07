"""What every implementation of the Disk port must do, whatever lies below it.

`tests/unit/server/test_disk.py` runs it on files, an event loop and the disk helper process,
`tests/unit/sim/test_disk.py` on the simulated disk. Durability is not in it: no test on a live kernel can see
that.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from headrace.errors import StorageError
from headrace.ports import Disk, File


@dataclass
class Stage:
    """A disk, and the way to let its callbacks happen."""

    disk: Disk
    run_until: Callable[[Callable[[], bool]], None]

    def file(self, path: str, content: bytes = b"") -> File:
        file = self.disk.open(path, create=True)
        file.append((content,))
        return file

    def sync(self, file: File) -> OSError | None:
        outcomes: list[OSError | None] = []
        file.sync_then(outcomes.append)
        assert outcomes == []
        self.run_until(lambda: len(outcomes) == 1)
        return outcomes[0]


def whole(file: File) -> bytes:
    return file.read(0, file.size)


class DiskContract:
    """Subclasses bring the `stage` fixture."""

    # Opening.

    def test_a_missing_file_is_not_opened(self, stage: Stage) -> None:
        with pytest.raises(FileNotFoundError):
            stage.disk.open("missing")
        assert not stage.disk.exists("missing")

    def test_a_created_file_exists_and_is_empty(self, stage: Stage) -> None:
        file = stage.disk.open("new", create=True)
        assert (file.path, file.size, whole(file)) == ("new", 0, b"")
        assert stage.disk.exists("new")

    def test_creating_what_exists_opens_it(self, stage: Stage) -> None:
        stage.file("log", b"abc")
        again = stage.disk.open("log", create=True)
        assert (again.size, whole(again)) == (3, b"abc")

    def test_a_file_is_not_created_in_a_missing_directory(self, stage: Stage) -> None:
        with pytest.raises(StorageError, match="no/log"):
            stage.disk.open("no/log", create=True)

    def test_a_directory_is_not_a_file(self, stage: Stage) -> None:
        stage.disk.make_dir("d")
        with pytest.raises(StorageError):
            stage.disk.open("d")

    # Appending and reading.

    def test_appends_follow_one_another(self, stage: Stage) -> None:
        file = stage.file("log")
        file.append((b"one ",))
        file.append((b"two ", bytearray(b"three "), memoryview(b"-four-")[1:5]))
        assert file.size == 18
        assert whole(file) == b"one two three four"

    def test_an_append_of_nothing_is_nothing(self, stage: Stage) -> None:
        file = stage.file("log", b"a")
        file.append(())
        file.append((b"",))
        assert (file.size, whole(file)) == (1, b"a")

    def test_more_parts_than_one_system_call_takes(self, stage: Stage) -> None:
        file = stage.file("log", b"start ")
        parts = [b"%d " % number for number in range(5000)]
        file.append(parts)
        assert whole(file) == b"start " + b"".join(parts)

    def test_reads_end_with_the_file(self, stage: Stage) -> None:
        file = stage.file("log", b"0123456789")
        assert file.read(2, 3) == b"234"
        assert file.read(8, 100) == b"89"
        assert file.read(10, 5) == b""
        assert file.read(100, 5) == b""
        assert file.read(3, 0) == b""

    def test_what_was_truncated_is_gone(self, stage: Stage) -> None:
        file = stage.file("log", b"0123456789")
        file.truncate(4)
        assert (file.size, file.read(0, 10)) == (4, b"0123")
        file.append((b"x",))
        assert whole(file) == b"0123x"
        file.truncate(0)
        assert (file.size, whole(file)) == (0, b"")

    def test_a_closed_file_is_reopened_by_use(self, stage: Stage) -> None:
        file = stage.file("log", b"abc")
        file.close()
        file.close()
        assert whole(file) == b"abc"
        file.close()
        file.append((b"def",))
        file.close()
        file.truncate(5)
        file.close()
        assert stage.sync(file) is None
        assert whole(stage.disk.open("log")) == b"abcde"

    def test_any_mixture_of_operations_matches_a_plain_byte_array(self, stage: Stage) -> None:
        chance = random.Random(7)
        files = [stage.file(f"log{number}") for number in range(8)]
        models = [bytearray() for _ in files]
        for _ in range(2000):
            which = chance.randrange(len(files))
            file, model = files[which], models[which]
            match chance.randrange(6):
                case 0 | 1 | 2:
                    parts = [chance.randbytes(chance.randrange(5000)) for _ in range(chance.randrange(1, 4))]
                    file.append(parts)
                    model += b"".join(parts)
                case 3:
                    position, size = chance.randrange(len(model) + 2), chance.randrange(10_000)
                    assert file.read(position, size) == model[position : position + size]
                case 4:
                    kept = chance.randrange(len(model) + 1)
                    file.truncate(kept)
                    del model[kept:]
                case 5:
                    file.close()
            assert file.size == len(model)
        for file, model in zip(files, models, strict=True):
            assert whole(file) == whole(stage.disk.open(file.path)) == model

    # Syncing.

    def test_a_sync_calls_back_later_and_once(self, stage: Stage) -> None:
        file = stage.file("log", b"abc")
        assert stage.sync(file) is None
        file.sync()
        assert stage.sync(file) is None

    def test_everyone_who_asked_for_a_sync_is_told(self, stage: Stage) -> None:
        files = [stage.file(f"log{number}", b"x") for number in range(50)]
        told: list[tuple[int, int]] = []

        def note(turn: int, number: int, error: OSError | None) -> None:
            assert error is None
            told.append((turn, number))

        for turn in range(4):
            for number, file in enumerate(files):
                file.append((b"more",))
                file.sync_then(partial(note, turn, number))
        assert told == []
        stage.run_until(lambda: len(told) == 200)
        assert sorted(told) == [(turn, number) for turn in range(4) for number in range(50)]

    def test_a_callback_may_ask_for_the_next_sync(self, stage: Stage) -> None:
        file = stage.file("log")
        synced = 0

        def again(error: OSError | None) -> None:
            nonlocal synced
            assert error is None
            synced += 1
            if synced < 5:
                file.append((b"x",))
                file.sync_then(again)

        file.sync_then(again)
        stage.run_until(lambda: synced == 5)
        assert whole(file) == b"xxxx"

    def test_callbacks_on_one_file_keep_their_order(self, stage: Stage) -> None:
        file = stage.file("log", b"x")
        order: list[int] = []

        def note(number: int, error: OSError | None) -> None:
            order.append(number)

        for number in range(10):
            file.sync_then(partial(note, number))
        stage.run_until(lambda: len(order) == 10)
        assert order == list(range(10))

    def test_a_file_deleted_while_it_waits_has_nothing_left_to_lose(self, stage: Stage) -> None:
        file = stage.file("log", b"abc")
        outcomes: list[OSError | None] = []
        file.sync_then(outcomes.append)
        file.sync_then(outcomes.append)
        file.delete()
        file.sync_then(outcomes.append)
        stage.run_until(lambda: len(outcomes) == 3)
        assert outcomes == [None, None, None]
        file.sync()

    def test_a_file_that_another_replaced_cannot_be_synced(self, stage: Stage) -> None:
        old = stage.file("log", b"old")
        old.close()
        stage.file("new", b"new").rename("log")
        assert isinstance(stage.sync(old), OSError)

    # Warmth.

    def test_what_was_just_appended_is_warm(self, stage: Stage) -> None:
        file = stage.file("log", bytes(100_000))
        assert file.is_warm(0, 100_000)
        assert file.is_warm(50_000, 1)

    def test_evicting_changes_nothing_of_a_healthy_file(self, stage: Stage) -> None:
        file = stage.file("log", b"synced")
        assert stage.sync(file) is None
        file.append((b" and not",))
        file.evict()
        assert (file.size, whole(file)) == (14, b"synced and not")
        file.append((b"!",))
        assert whole(stage.disk.open("log")) == b"synced and not!"

    def test_nothing_is_always_warm(self, stage: Stage) -> None:
        file = stage.file("log", b"abc")
        assert file.is_warm(0, 0)
        assert file.is_warm(3, 1000)
        assert file.is_warm(100, 1000)

    def test_what_was_warmed_is_warm(self, stage: Stage) -> None:
        stage.file("log", bytes(100_000)).sync()
        file = stage.disk.open("log")
        calls: list[str] = []
        file.warm_then(10_000, 50_000, lambda: calls.append("warm"))
        assert calls == []
        stage.run_until(lambda: calls == ["warm"])
        assert file.is_warm(10_000, 50_000)

    def test_warming_past_the_end_calls_back(self, stage: Stage) -> None:
        file = stage.file("log", b"abc")
        calls: list[str] = []
        file.warm_then(0, 1 << 20, lambda: calls.append("longer"))
        file.warm_then(1 << 20, 5, lambda: calls.append("beyond"))
        stage.run_until(lambda: len(calls) == 2)

    def test_warming_a_deleted_file_calls_back(self, stage: Stage) -> None:
        file = stage.file("log", b"abc")
        file.delete()
        calls: list[str] = []
        file.warm_then(0, 3, lambda: calls.append("gone"))
        assert calls == []
        stage.run_until(lambda: calls == ["gone"])

    # Names.

    def test_a_renamed_file_goes_on_under_its_new_name(self, stage: Stage) -> None:
        file = stage.file("log", b"abc")
        file.rename("log.deleted")
        assert file.path == "log.deleted"
        assert stage.disk.list("") == ["log.deleted"]
        file.append((b"d",))
        file.close()
        file.append((b"e",))
        assert stage.sync(file) is None
        assert whole(file) == whole(stage.disk.open("log.deleted")) == b"abcde"

    def test_a_file_moves_to_another_directory(self, stage: Stage) -> None:
        stage.disk.make_dir("a")
        stage.disk.make_dir("b")
        file = stage.file("a/log", b"abc")
        file.rename("b/log")
        file.close()
        assert (stage.disk.list("a"), stage.disk.list("b"), whole(file)) == ([], ["log"], b"abc")

    def test_renaming_over_a_file_replaces_it(self, stage: Stage) -> None:
        old = stage.file("log", b"old")
        new = stage.file("log.swap", b"the new one")
        new.rename("log")
        assert stage.disk.list("") == ["log"]
        assert whole(stage.disk.open("log")) == whole(new) == b"the new one"
        old.close()
        for use in (
            lambda: old.read(0, 3),
            lambda: old.append((b"x",)),
            lambda: old.truncate(0),
            old.sync,
            lambda: old.rename("other"),
        ):
            with pytest.raises(StorageError, match="log"):
                use()
        old.delete()  # What it stood for is gone; what is there now is not its own.
        assert whole(stage.disk.open("log")) == b"the new one"

    def test_renaming_what_is_gone_fails(self, stage: Stage) -> None:
        file = stage.file("log", b"abc")
        stage.disk.open("log").delete()
        with pytest.raises(StorageError, match="log"):
            file.rename("other")
        assert stage.disk.list("") == []

    def test_a_deleted_file_is_gone(self, stage: Stage) -> None:
        file = stage.file("log", b"abc")
        file.delete()
        assert not stage.disk.exists("log")
        file.delete()
        with pytest.raises(StorageError, match="log"):
            file.append((b"x",))
        with pytest.raises(StorageError, match="log"):
            file.read(0, 1)
        assert not stage.disk.exists("log")

    def test_deleting_what_is_gone_does_nothing(self, stage: Stage) -> None:
        file = stage.file("log", b"abc")
        stage.disk.open("log").delete()
        file.close()
        file.delete()
        assert not stage.disk.exists("log")

    def test_a_name_can_be_used_again(self, stage: Stage) -> None:
        stage.file("log", b"first").delete()
        second = stage.file("log", b"second")
        second.close()
        assert whole(second) == b"second"

    # Directories.

    def test_listing(self, stage: Stage) -> None:
        stage.disk.make_dir("t-0")
        for name in ("b", "c", "a"):
            stage.file(f"t-0/{name}")
        stage.disk.make_dir("t-0/d/e")
        assert stage.disk.list("t-0") == ["a", "b", "c", "d"]
        assert stage.disk.list("") == stage.disk.list(".") == ["t-0"]
        assert stage.disk.list("missing") == []
        with pytest.raises(StorageError, match="t-0/a"):
            stage.disk.list("t-0/a")

    def test_making_a_directory_again_keeps_it(self, stage: Stage) -> None:
        stage.disk.make_dir("a/b/c")
        stage.file("a/b/log", b"abc")
        stage.disk.make_dir("a/b")
        assert stage.disk.list("a/b") == ["c", "log"]
        with pytest.raises(StorageError):
            stage.disk.make_dir("a/b/log")
        with pytest.raises(StorageError):
            stage.disk.make_dir("a/b/log/below")

    def test_a_renamed_directory_takes_its_files_along(self, stage: Stage) -> None:
        stage.disk.make_dir("t-0")
        stage.disk.make_dir("t-01")
        old = stage.file("t-0/log", b"abc")
        neighbour = stage.file("t-01/log", b"def")
        stage.disk.rename_dir("t-0", "t-0.gone")
        assert stage.disk.list("") == ["t-0.gone", "t-01"]
        assert whole(stage.disk.open("t-0.gone/log")) == b"abc"
        assert whole(neighbour) == b"def"
        with pytest.raises(StorageError, match="t-0/log"):
            old.append((b"x",))

    def test_a_directory_is_not_renamed_over_files(self, stage: Stage) -> None:
        stage.disk.make_dir("a")
        stage.disk.make_dir("b")
        stage.file("b/log", b"abc")
        with pytest.raises(StorageError):
            stage.disk.rename_dir("a", "b")
        with pytest.raises(StorageError, match="missing"):
            stage.disk.rename_dir("missing", "c")
        assert whole(stage.disk.open("b/log")) == b"abc"

    def test_a_removed_tree_is_gone_and_its_neighbours_are_not(self, stage: Stage) -> None:
        for directory in ("t-0/deep", "t-01"):
            stage.disk.make_dir(directory)
        files = [stage.file(path, b"abc") for path in ("t-0/log", "t-0/deep/log", "t-01/log")]
        stage.disk.remove_tree("t-0")
        assert stage.disk.list("") == ["t-01"]
        for file in files[:2]:
            with pytest.raises(StorageError, match="t-0/"):
                file.read(0, 3)
        assert whole(files[2]) == b"abc"
        stage.disk.remove_tree("t-0")

    def test_directories_are_synced(self, stage: Stage) -> None:
        stage.disk.make_dir("a")
        stage.file("a/log")
        stage.disk.sync_dir("a")
        stage.disk.sync_dir("")
        stage.disk.sync_dir(".")
        outcomes: list[OSError | None] = []
        for path in ("a", ".", "a", "a"):
            stage.disk.sync_dir_then(path, outcomes.append)
        assert outcomes == []
        stage.run_until(lambda: len(outcomes) == 4)
        assert outcomes == [None] * 4

    def test_a_missing_directory_is_not_synced(self, stage: Stage) -> None:
        with pytest.raises(StorageError, match="missing"):
            stage.disk.sync_dir("missing")
        outcomes: list[OSError | None] = []
        stage.disk.sync_dir_then("missing", outcomes.append)
        stage.run_until(lambda: len(outcomes) == 1)
        assert isinstance(outcomes[0], FileNotFoundError)

    # Small files.

    @pytest.mark.parametrize("sync", [True, False])
    def test_a_small_file_is_replaced_whole(self, stage: Stage, sync: bool) -> None:
        stage.disk.make_dir("t-0")
        assert stage.disk.read_file("t-0/checkpoint") is None
        for content in (b"first", b"", b"x" * 100_000, b"last"):
            stage.disk.replace_file("t-0/checkpoint", content, sync=sync)
            assert stage.disk.read_file("t-0/checkpoint") == content
        assert stage.disk.list("t-0") == ["checkpoint"]

    def test_a_small_file_at_the_root(self, stage: Stage) -> None:
        stage.disk.replace_file("meta.properties", b"version=1")
        assert stage.disk.read_file("meta.properties") == b"version=1"

    def test_a_half_written_replacement_of_an_earlier_life_is_overwritten(self, stage: Stage) -> None:
        stage.file("checkpoint.tmp", b"x" * 1000)
        stage.disk.replace_file("checkpoint", b"whole")
        assert stage.disk.read_file("checkpoint") == b"whole"
        assert stage.disk.list("") == ["checkpoint"]

    def test_a_replacement_in_a_missing_directory_fails(self, stage: Stage) -> None:
        with pytest.raises(StorageError, match="missing/checkpoint"):
            stage.disk.replace_file("missing/checkpoint", b"x")

    # Room.

    def test_room_is_known(self, stage: Stage) -> None:
        assert 0 < stage.disk.free_bytes() <= stage.disk.total_bytes()

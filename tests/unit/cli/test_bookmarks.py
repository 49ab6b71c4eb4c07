"""Bookmarks are whole or not there, and a file is changed by one process at a time."""

from pathlib import Path

import pytest

from headrace.cli.bookmarks import keep_bookmark, open_alone, put_in_place, read_bookmark
from headrace.cli.output import CommandError


def test_a_bookmark_is_kept_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "mark.json"
    assert read_bookmark(path) is None
    keep_bookmark(path, {"rows": 1})
    keep_bookmark(path, {"rows": 2})
    assert read_bookmark(path) == {"rows": 2}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_what_is_no_bookmark_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mark.json"
    path.write_text(text)
    with pytest.raises(CommandError, match=r"mark\.json"):
        read_bookmark(path)


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError), open_alone(path, create=False):
        pass
    with open_alone(path, create=True) as file:
        file.write(b"first")
        file.flush()
        with pytest.raises(CommandError, match="another process"), open_alone(path, create=False):
            pass
        put_in_place(path, tmp_path / "whole")
        with open_alone(path, create=True):  # Another file, which only has the name.
            pass
    assert (tmp_path / "whole").read_bytes() == b"first"

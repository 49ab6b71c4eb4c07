"""`headrace sql`: the answers are right, and no more is read than they need."""

import csv
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace import columnar
from headrace.columnar.schema import COLUMNS
from headrace.testing import Broker
from tests.clients.command_line import Headrace

BEGAN_MS = 1_760_000_000_000
ROWS = 8_000  # A second apart, dealt over four partitions.
TOPIC = "web.clicks-2026"
SHORTER = "clicks-2026"
FROM = f'from "{TOPIC}"'


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic(TOPIC, partitions=4)
        broker.create_topic("users")
        broker.create_topic(SHORTER)
        broker.create_topic("web.clicks")
        numbers = range(ROWS)
        clicks = pa.table(
            {
                "key": pa.array([b"%d" % (number % 10) for number in numbers], pa.binary()),
                "value": pa.array([b'{"n":%d,"pad":"%0200d"}' % (number, 0) for number in numbers], pa.binary()),
                "timestamp": pa.array([BEGAN_MS + 1000 * number for number in numbers], COLUMNS["timestamp"]),
                "partition": pa.array([number % 4 for number in numbers], pa.int32()),
            }
        )
        # Small batches: a broker answers from the batch on that holds the offset.
        columnar.write(broker.bootstrap, TOPIC, clicks, partition="partition", batch_bytes=4096)
        users = pa.table({"key": [b"1", b"2"], "value": [b"Ada", b"\xff\x00"]})
        columnar.write(broker.bootstrap, "users", users)
        yield broker


@pytest.fixture
def headrace(broker: Broker) -> Headrace:
    return Headrace(broker.bootstrap)


def ask(headrace: Headrace, query: str, *options: str) -> tuple[list[dict[str, Any]], int]:
    """The rows, and the bytes that were fetched."""
    told = headrace("sql", query, "--json", "--stats", *options)
    fetched = sum(int(found.replace(",", "")) for found in re.findall(r": ([\d,]+) bytes fetched", told.stderr))
    return json.loads(told.stdout), fetched


def test_an_answer(headrace: Headrace) -> None:
    rows, _ = ask(
        headrace,
        f"select decode(key) as user, count(*) as clicks, max((decode(value)->>'$.n')::int) as last {FROM} "
        "group by all order by user limit 2",
    )
    assert rows == [{"user": "0", "clicks": 800, "last": 7990}, {"user": "1", "clicks": 800, "last": 7991}]


def test_topics_are_joined_and_read_as_often_as_it_takes(headrace: Headrace) -> None:
    rows, _ = ask(
        headrace,
        f"select decode(u.value) as name, count(*) as clicks {FROM} c join users u on u.key = c.key "
        "where u.key = '1' group by all",
    )
    assert rows == [{"name": "Ada", "clicks": 800}]
    rows, _ = ask(headrace, f'select count(*) as n {FROM} a join "{TOPIC}" b using (partition, "offset")')
    assert rows == [{"n": ROWS}]


def test_bounds_that_are_given_read_only_their_range(headrace: Headrace) -> None:
    query = f"select count(*) as n, sum(octet_length(value)) as size {FROM}"
    (everything,), all_bytes = ask(headrace, query)
    assert everything["n"] == ROWS
    assert all_bytes > everything["size"]

    (one,), one_bytes = ask(headrace, query, "--partition", "2")
    assert one["n"] == ROWS // 4
    assert one_bytes < 0.3 * all_bytes

    start, end = f"@{BEGAN_MS + 4_000_000}", f"@{BEGAN_MS + 4_400_000}"
    (some,), some_bytes = ask(headrace, query, "--start", start, "--end", end)
    assert some["n"] == 400
    assert some_bytes < 0.3 * all_bytes

    (few,), few_bytes = ask(headrace, query, "--start", "1900", "--end", "1950")
    assert few["n"] == 4 * 50
    assert few_bytes < 0.15 * all_bytes


@pytest.mark.parametrize(
    ("where", "count", "share"),
    [
        ("partition = 3", ROWS // 4, 0.3),
        ("partition in (1, 2)", ROWS // 2, 0.6),
        ('"offset" >= 1900 and "offset" < 1950', 200, 0.15),
        ('"offset" = 1999 and partition = 0', 1, 0.05),
        (f"timestamp >= make_timestamptz({(BEGAN_MS + 7_600_000) * 1000})", 400, 0.15),
        (f"epoch_ms(timestamp) >= {BEGAN_MS + 7_600_000}", 400, 1.1),  # Right, though it cannot be looked through.
        ('partition = 3 or "offset" < 10', ROWS // 4 + 30, 1.1),
        ("partition = 9", 0, 0.01),
        ('partition = 1 and "offset" > 5000', 0, 0.01),
    ],
)
def test_a_where_reads_only_what_it_allows(headrace: Headrace, where: str, count: int, share: float) -> None:
    query = f"select count(*) as n, coalesce(sum(octet_length(value)), 0) as size {FROM}"
    _, all_bytes = ask(headrace, query)
    (row,), some_bytes = ask(headrace, f"{query} where {where}")
    assert row["n"] == count
    assert some_bytes < share * all_bytes


def test_people_get_a_table_and_programs_csv(headrace: Headrace) -> None:
    query = "select decode(key) as k, value, [1, 2] as list, null as nothing from users order by k"
    lines = headrace("sql", query).stdout.splitlines()
    assert [line.split() for line in lines if line.strip()] == [
        ["k", "value", "list", "nothing"],
        ["1", "Ada", "[1,2]", "-"],
        ["2", "\\xFF\\x00", "[1,2]", "-"],
    ]
    rows = list(csv.DictReader(io.StringIO(headrace("sql", query, "--csv").stdout)))
    assert rows[0] == {"k": "1", "value": "Ada", "list": "[1,2]", "nothing": ""}
    assert headrace.json("sql", query)[1]["value"] == {"base64": "/wA="}
    assert headrace.json("sql", "select 1 as n from users where false") == []
    shown = headrace("sql", f'select "offset" {FROM}', "--rows", "5")
    assert len(shown.stdout.strip().splitlines()) == 6
    assert "the first 5 rows" in shown.stderr


def test_an_answer_goes_into_a_file(headrace: Headrace, tmp_path: Path) -> None:
    file = tmp_path / "answer.parquet"
    headrace("sql", f"copy (select partition, count(*) as n {FROM} group by all) to '{file}'")
    rows, _ = ask(headrace, f"select sum(n)::int as n from '{file}'")
    assert rows == [{"n": ROWS}]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select * from nowhere", "no topic 'nowhere'"),
        ("selec * from users", "syntax error"),
        ("select size from users", "size"),
        ("select decode(value) from users", "decode"),  # Not UTF-8.
        (f"select * from {TOPIC}", f'in double quotes: "{TOPIC}"'),
        (f"select * from users u, {TOPIC} as c", f'in double quotes: "{TOPIC}"'),
        (f"select * from users join {TOPIC} using (key)", f'in double quotes: "{TOPIC}"'),
        # Topics whose names are parts of other words have nothing to do with it.
        (f'select colour from "{TOPIC}"', "colour"),
        (f"select colour from users where decode(value) = 'from {SHORTER}' -- from {SHORTER}", "colour"),
        ("select colour, web.clicks from users", "colour"),
        (f"select * from {TOPIC}-9", "syntax error"),
        ("select * from users, 'nowhere.parquet'", "nowhere.parquet"),
    ],
)
def test_what_cannot_be_answered_is_told_in_one_line(headrace: Headrace, query: str, words: str) -> None:
    (line,) = headrace("sql", query, status=1).stderr.strip().splitlines()
    assert words in line


def test_a_failure_while_reading_is_told_in_its_own_words(broker: Broker, headrace: Headrace) -> None:
    with broker.faults.error("UNKNOWN_SERVER_ERROR", api="Fetch", times=None):
        (line,) = headrace("sql", "select * from users", status=1).stderr.strip().splitlines()
    assert "Fetch of users-0" in line


def test_without_duckdb_it_says_what_to_install(headrace: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "pip install 'headrace[sql]'" in headrace("sql", "select * from users", status=1).stderr

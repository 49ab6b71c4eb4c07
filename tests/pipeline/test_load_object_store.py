"""The same loads into an object store: what is there after them, and what is not."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from headrace.pipeline.decoding import RawDecoder
from headrace.pipeline.lake_table import LostRace, NotALake
from headrace.pipeline.ledger import read_ledger
from headrace.pipeline.load import Load, Loaded, LoadRequest
from headrace.pipeline.location import Location, parse_location
from headrace.pipeline.tasks import RunTasks, TaskOutcome
from headrace.pipeline.upkeep import compact, vacuum
from headrace.testing import Broker
from headrace.wire.settings import client_settings
from tests.pipeline.loading import records_of, run_here, write_clicks
from tests.pipeline.object_store import BUCKET, ObjectStore, object_store


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


def load(broker: Broker, lake: Location, *, run: RunTasks = run_here) -> Loaded:
    request = LoadRequest(
        topics=["clicks"],
        lake=lake,
        settings=client_settings(broker.bootstrap),
        kind="raw",
        decoder=RawDecoder(),
        offsets_per_commit=200,
    )
    with Load(request, run=run) as work:
        return work.once()


def offsets(lake: Location) -> Counter[tuple[int, int]]:
    rows = DeltaTable(lake.uri, storage_options=dict(lake.options)).to_pyarrow_table(columns=["partition", "offset"])
    return Counter((row["partition"], row["offset"]) for row in rows.to_pylist())


def test_a_topic_is_loaded_into_an_object_store_and_kept_in_order_there(broker: Broker, store: ObjectStore) -> None:
    lake = parse_location(f"s3://{BUCKET}/web/clicks", store.options)
    write_clicks(broker, 300)
    assert load(broker, lake).rows == 300
    write_clicks(broker, 100)

    def overtaken(tasks: Any, tell: Any) -> list[TaskOutcome]:
        assert load(broker, lake).rows == 100
        return run_here(tasks, tell)

    with pytest.raises(LostRace, match="another load of topic 'clicks' was first"):
        load(broker, lake, run=overtaken)
    topic = Counter(record[1:3] for record in records_of(broker).elements())
    assert offsets(lake) == topic
    compacted = compact(lake)
    assert compacted.files_after < compacted.files_before
    before = store.keys()
    removed = vacuum(lake, older_than=timedelta(0))
    assert removed
    assert {f"s3://{BUCKET}/{key}" for key in before - store.keys()} == set(removed)
    assert offsets(lake) == topic
    assert sum(read_ledger(lake)["rows"].to_pylist()) == 400
    assert load(broker, lake).commits == 0


def test_a_place_with_other_objects_is_left_alone(broker: Broker, store: ObjectStore) -> None:
    store.put("photos/holiday.jpg", b"")
    write_clicks(broker, 10)
    with pytest.raises(NotALake, match=r"there are other files in it \(holiday.jpg\)"):
        load(broker, parse_location(f"s3://{BUCKET}/photos", store.options))
    assert store.keys() == {"photos/holiday.jpg"}

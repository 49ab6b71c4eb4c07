"""The message tables, one module per API, and the registry of all of them.

A table here says that we can read and write a message, not that the broker serves it: `node/apis.py` says
that.
"""

from headrace.protocol.messages import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from headrace.protocol.schema import ApiMessages

MESSAGES: dict[int, ApiMessages] = {
    api.key: api
    for api in (
        produce.API,
        fetch.API,
        list_offsets.API,
        metadata.API,
        find_coordinator.API,
        api_versions.API,
        create_topics.API,
        delete_topics.API,
        delete_records.API,
        init_producer_id.API,
        offset_for_leader_epoch.API,
        describe_configs.API,
        alter_configs.API,
        describe_log_dirs.API,
        create_partitions.API,
        alter_configs.INCREMENTAL_API,
        describe_cluster.API,
        describe_topic_partitions.API,
    )
}

"""The served APIs, one module each. This folder's listing is the node's protocol coverage.

Every module opens with the versions it serves and the fields it ignores, and ends with its row, `API`. The rows
together are the one list of what is served: dispatch, ApiVersions and `docs/protocol.md` come from it.
"""

from collections.abc import Mapping
from typing import Final

from headrace.node.apis import Api
from headrace.node.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)

APIS: Final[Mapping[int, Api]] = {
    api.key: api
    for api in (
        produce.API,
        fetch.API,
        list_offsets.API,
        metadata.API,
        offset_commit.API,
        offset_fetch.API,
        find_coordinator.API,
        join_group.API,
        heartbeat.API,
        leave_group.API,
        sync_group.API,
        describe_groups.API,
        list_groups.API,
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
        delete_groups.API,
        incremental_alter_configs.API,
        offset_delete.API,
        describe_cluster.API,
        describe_topic_partitions.API,
    )
}

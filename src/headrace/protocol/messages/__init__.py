"""The message tables, one module per API, and the registry of all of them.

A table here says that we can read and write a message, not that the broker serves it: `node/apis.py` says
that.
"""

from headrace.protocol.messages import (
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
    sasl_authenticate,
    sasl_handshake,
    sync_group,
)
from headrace.protocol.schema import ApiMessages

MESSAGES: dict[int, ApiMessages] = {
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
        sasl_handshake.API,
        api_versions.API,
        create_topics.API,
        delete_topics.API,
        delete_records.API,
        init_producer_id.API,
        offset_for_leader_epoch.API,
        describe_configs.API,
        alter_configs.API,
        describe_log_dirs.API,
        sasl_authenticate.API,
        create_partitions.API,
        delete_groups.API,
        alter_configs.INCREMENTAL_API,
        offset_delete.API,
        describe_cluster.API,
        describe_topic_partitions.API,
    )
}

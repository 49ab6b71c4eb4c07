"""DescribeCluster: brokers and controller, for admin clients. Every version is flexible."""

from headrace.protocol.messages.metadata import OPERATIONS_UNKNOWN
from headrace.protocol.schema import BOOL, INT8, INT16, INT32, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=60,
    name="DescribeCluster",
    versions=(0, 2),
    flexible_since=0,
    request=(
        F("include_cluster_authorized_operations", BOOL),
        F("endpoint_type", INT8, since=1, default=1, ignorable=False),
        F("include_fenced_brokers", BOOL, since=2, ignorable=False),
    ),
    response=(
        F("throttle_time_ms", INT32),
        F("error_code", INT16),
        F("error_message", STRING, nullable_since=0, default=None),
        F("endpoint_type", INT8, since=1, default=1),
        F("cluster_id", STRING),
        F("controller_id", INT32, default=-1),
        F(
            "brokers",
            Array(
                F("broker_id", INT32),
                F("host", STRING),
                F("port", INT32),
                F("rack", STRING, nullable_since=0, default=None),
                F("is_fenced", BOOL, since=2),
            ),
        ),
        F("cluster_authorized_operations", INT32, default=OPERATIONS_UNKNOWN),
    ),
)

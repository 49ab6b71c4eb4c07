"""ApiVersions: what the broker speaks. The first request on most connections, with its own header rule."""

from headrace.protocol.schema import BOOL, INT16, INT32, INT64, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=18,
    name="ApiVersions",
    versions=(0, 4),
    flexible_since=3,
    request=(
        F("client_software_name", STRING, since=3),
        F("client_software_version", STRING, since=3),
    ),
    response=(
        F("error_code", INT16),
        F(
            "api_keys",
            Array(
                F("api_key", INT16),
                F("min_version", INT16),
                F("max_version", INT16),
            ),
        ),
        F("throttle_time_ms", INT32, since=1),
        F(
            "supported_features",
            Array(
                F("name", STRING),
                F("min_version", INT16),
                F("max_version", INT16),
            ),
            since=3,
            tag=0,
        ),
        F("finalized_features_epoch", INT64, since=3, tag=1, default=-1),
        F(
            "finalized_features",
            Array(
                F("name", STRING),
                F("max_version_level", INT16),
                F("min_version_level", INT16),
            ),
            since=3,
            tag=2,
        ),
        F("zk_migration_ready", BOOL, since=3, tag=3),
    ),
)

"""SaslAuthenticate: one step of the exchange that the mechanism prescribes."""

from headrace.protocol.schema import BYTES, INT16, INT64, STRING, ApiMessages, F

API = ApiMessages(
    key=36,
    name="SaslAuthenticate",
    versions=(0, 2),
    flexible_since=2,
    request=(F("auth_bytes", BYTES),),
    response=(
        F("error_code", INT16),
        F("error_message", STRING, nullable_since=0),
        F("auth_bytes", BYTES),
        F("session_lifetime_ms", INT64, since=1),
    ),
)

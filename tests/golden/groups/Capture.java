import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocol;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocolCollection;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.OffsetAndMetadata;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.classic.ClassicGroupMember;
import org.apache.kafka.coordinator.group.classic.ClassicGroupState;

/**
 * Asks Kafka's own group coordinator for bytes: one JSON object per line in, the same with the bytes added out.
 *
 * "write" is a record that the coordinator's helpers make, in the versions they choose. "value" is a value in a version
 * of ours. "hash" is the partition of a group. "subscribe" is what a consumer tells its group.
 */
public final class Capture {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode asked = (ObjectNode) JSON.readTree(line);
            switch (asked.get("what").asText()) {
                case "write" -> {
                    CoordinatorRecord record = written(asked);
                    byte[] value = SERDE.serializeValue(record);
                    asked.put("key_hex", hex(SERDE.serializeKey(record)));
                    asked.put("value_hex", value == null ? null : hex(value));
                }
                case "value" -> asked.put("hex", hex(valueInVersion(asked)));
                case "hash" -> asked.put("partition",
                    Utils.abs(asked.get("group_id").asText().hashCode()) % asked.get("partitions").intValue());
                case "subscribe" -> asked.put("hex", hex(subscription(asked)));
                default -> throw new IllegalArgumentException(line);
            }
            System.out.write((JSON.writeValueAsString(asked) + "\n").getBytes(StandardCharsets.UTF_8));
        }
        System.out.flush();
    }

    private static CoordinatorRecord written(JsonNode asked) {
        String group = asked.get("group_id").asText();
        return switch (asked.get("record").asText()) {
            case "offset" -> GroupCoordinatorRecordHelpers.newOffsetCommitRecord(
                group, asked.get("topic").asText(), asked.get("partition").intValue(),
                new OffsetAndMetadata(
                    asked.get("offset").longValue(),
                    asked.get("leader_epoch").intValue() < 0
                        ? OptionalInt.empty() : OptionalInt.of(asked.get("leader_epoch").intValue()),
                    asked.get("metadata").asText(),
                    asked.get("commit_ms").longValue(),
                    asked.get("expire_ms").isNull()
                        ? OptionalLong.empty() : OptionalLong.of(asked.get("expire_ms").longValue()),
                    Uuid.fromString(asked.get("topic_id").asText())));
            case "offset tombstone" -> GroupCoordinatorRecordHelpers.newOffsetCommitTombstoneRecord(
                group, asked.get("topic").asText(), asked.get("partition").intValue());
            case "group" -> storedGroup(group, asked);
            case "new group" -> GroupCoordinatorRecordHelpers.newEmptyGroupMetadataRecord(new ClassicGroup(
                new LogContext(), group, ClassicGroupState.EMPTY, Time.SYSTEM, 0, Optional.empty(), Optional.empty(),
                Optional.empty(), Optional.of(asked.get("state_since_ms").longValue())));
            case "group tombstone" -> GroupCoordinatorRecordHelpers.newGroupMetadataTombstoneRecord(group);
            case "newer group" -> GroupCoordinatorRecordHelpers.newConsumerGroupEpochRecord(group, 7, 11L);
            default -> throw new IllegalArgumentException(asked.toString());
        };
    }

    private static CoordinatorRecord storedGroup(String groupId, JsonNode asked) {
        ClassicGroup group = new ClassicGroup(
            new LogContext(), groupId,
            asked.get("members").isEmpty() ? ClassicGroupState.EMPTY : ClassicGroupState.STABLE,
            Time.SYSTEM, asked.get("generation").intValue(), text(asked.get("protocol_type")),
            text(asked.get("protocol_name")), text(asked.get("leader_id")),
            Optional.of(asked.get("state_since_ms").longValue()));
        Map<String, byte[]> assignment = new HashMap<>();
        for (JsonNode member : asked.get("members")) {
            JoinGroupRequestProtocolCollection protocols = new JoinGroupRequestProtocolCollection();
            protocols.add(new JoinGroupRequestProtocol()
                .setName(asked.get("protocol_name").asText())
                .setMetadata(HexFormat.of().parseHex(member.get("subscription").asText())));
            group.add(new ClassicGroupMember(
                member.get("member_id").asText(), text(member.get("instance_id")), member.get("client_id").asText(),
                member.get("client_host").asText(), member.get("rebalance_timeout_ms").intValue(),
                member.get("session_timeout_ms").intValue(), asked.get("protocol_type").asText(), protocols));
            assignment.put(member.get("member_id").asText(), HexFormat.of().parseHex(member.get("assignment").asText()));
        }
        return GroupCoordinatorRecordHelpers.newGroupMetadataRecord(group, assignment);
    }

    private static byte[] valueInVersion(JsonNode asked) throws Exception {
        short version = asked.get("version").shortValue();
        Class<?> converter = Class.forName(
            "org.apache.kafka.coordinator.group.generated." + asked.get("type").asText() + "JsonConverter");
        Message message = (Message) converter.getMethod("read", JsonNode.class, short.class)
            .invoke(null, asked.get("value"), version);
        return Utils.toArray(MessageUtil.toVersionPrefixedByteBuffer(version, message));
    }

    private static byte[] subscription(JsonNode asked) {
        List<String> topics = new ArrayList<>();
        asked.get("topics").forEach(topic -> topics.add(topic.asText()));
        ByteBuffer userData = ByteBuffer.wrap(new byte[] {1, 2, 3});
        Subscription subscription = new Subscription(
            topics, userData, List.of(new TopicPartition("owned", 3)), 5, Optional.of("rack"));
        return Utils.toArray(ConsumerProtocol.serializeSubscription(subscription, asked.get("version").shortValue()));
    }

    private static Optional<String> text(JsonNode node) {
        return node.isNull() ? Optional.empty() : Optional.of(node.asText());
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}

// The Java client's driver. See ../README.md for what goes in and out.

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        JsonNode scenario = JSON.readTree(System.in);
        String bootstrap = scenario.get("bootstrap").asText();
        Properties common = new Properties();
        common.put("bootstrap.servers", bootstrap);
        for (JsonNode step : scenario.get("steps")) {
            ObjectNode result = JSON.createObjectNode();
            switch (step.get("do").asText()) {
                case "produce" -> produce(common, step, result);
                case "consume" -> consume(common, step, result);
                case "read" -> read(common, step, result);
                case "follow" -> follow(common, step, result);
                case "offsets" -> offsets(common, step, result);
                default -> administer(common, step, result);
            }
            System.out.println(result);
        }
    }

    private static void produce(Properties common, JsonNode step, ObjectNode result) throws Exception {
        Properties properties = new Properties();
        properties.putAll(common);
        String acks = step.get("acks").asText();
        properties.put("acks", acks);
        properties.put("enable.idempotence", String.valueOf(acks.equals("all")));
        properties.put("compression.type", step.get("codec").asText());
        properties.put("linger.ms", "5");
        properties.put("max.request.size", "2000000");
        long pauseMs = step.path("pause_ms").asLong(0);
        String topic = step.get("topic").asText();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode record : step.get("records")) {
                JsonNode timestamp = record.get("timestamp");
                JsonNode partition = record.get("partition");
                var message = new ProducerRecord<>(
                        topic,
                        partition.isNull() ? null : (Integer) partition.asInt(),
                        timestamp.isNull() ? null : (Long) timestamp.asLong(),
                        bytes(record.get("key")),
                        bytes(record.get("value")));
                for (JsonNode header : record.get("headers")) {
                    message.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
                sent.add(producer.send(message));
                if (pauseMs > 0) {
                    if (sent.size() == 1) {
                        sent.get(0).get();
                        System.out.println("{\"first\": true}");
                    }
                    Thread.sleep(pauseMs);
                }
            }
            producer.flush();
        }
        for (Future<RecordMetadata> one : sent) {
            one.get();
        }
        result.put("produced", sent.size());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(Properties common) {
        Properties properties = new Properties();
        properties.putAll(common);
        properties.put("auto.offset.reset", "none");
        properties.put("enable.auto.commit", "false");
        properties.put("fetch.max.wait.ms", "20");
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void consume(Properties common, JsonNode step, ObjectNode result) throws Exception {
        String topic = step.get("topic").asText();
        boolean withTimestamps = step.get("timestamps").asBoolean();
        try (var consumer = consumer(common)) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                    .map(info -> new TopicPartition(topic, info.partition()))
                    .toList();
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            Map<TopicPartition, Long> begins = consumer.beginningOffsets(partitions);
            consumer.assign(partitions);
            Map<TopicPartition, Tally> tallies = new TreeMap<>((a, b) -> Integer.compare(a.partition(), b.partition()));
            for (TopicPartition partition : partitions) {
                long from = step.path("from").path(String.valueOf(partition.partition())).asLong(begins.get(partition));
                consumer.seek(partition, from);
                tallies.put(partition, new Tally());
            }
            long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
            while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the end was not reached");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    tallies.get(new TopicPartition(topic, record.partition())).add(record, withTimestamps);
                }
            }
            for (var entry : tallies.entrySet()) {
                entry.getValue().report(result.putObject(String.valueOf(entry.getKey().partition())));
            }
        }
    }

    /** Every record with all that it has, as far as this isolation may see. */
    private static void read(Properties common, JsonNode step, ObjectNode result) throws Exception {
        Properties properties = new Properties();
        properties.putAll(common);
        properties.put("isolation.level", step.get("isolation").asText());
        String topic = step.get("topic").asText();
        var rows = result.putArray("rows");
        try (var consumer = consumer(properties)) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                    .map(info -> new TopicPartition(topic, info.partition()))
                    .toList();
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
            while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the end was not reached");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    ObjectNode row = rows.addObject();
                    row.put("partition", record.partition());
                    row.put("offset", record.offset());
                    row.put("timestamp", record.timestamp());
                    row.put("timestamp_type", record.timestampType().id);
                    row.put("key", record.key());
                    row.put("value", record.value());
                    var headers = row.putArray("headers");
                    for (Header header : record.headers()) {
                        headers.addArray().add(header.key()).add(header.value());
                    }
                }
            }
        }
    }

    /** Says what each poll brought, until the record with the last key. */
    private static void follow(Properties common, JsonNode step, ObjectNode result) throws Exception {
        Properties properties = new Properties();
        properties.putAll(common);
        // Little at a time: what is read was asked for a moment ago.
        properties.put("max.poll.records", "100");
        properties.put("max.partition.fetch.bytes", "32768");
        var partition = new TopicPartition(step.get("topic").asText(), step.get("partition").asInt());
        byte[] lastKey = bytes(step.get("until"));
        long pauseMs = step.get("pause_ms").asLong();
        try (var consumer = consumer(properties)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, step.get("from").asLong());
            long deadline = System.nanoTime() + Duration.ofSeconds(100).toNanos();
            for (boolean isLast = false; !isLast; ) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the last record did not come");
                }
                ObjectNode event = JSON.createObjectNode();
                var offsets = event.putArray("offsets");
                var hashes = event.putArray("hashes");
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    var tally = new Tally();
                    tally.add(record, true);
                    offsets.add(record.offset());
                    hashes.add(tally.sha256());
                    isLast = Arrays.equals(record.key(), lastKey);
                }
                System.out.println(event);
                System.out.flush();
                Thread.sleep(pauseMs);
            }
            result.put("position", consumer.position(partition));
        }
    }

    private static void offsets(Properties common, JsonNode step, ObjectNode result) {
        var partition = new TopicPartition(step.get("topic").asText(), step.get("partition").asInt());
        try (var consumer = consumer(common)) {
            result.put("begin", consumer.beginningOffsets(List.of(partition)).get(partition));
            result.put("end", consumer.endOffsets(List.of(partition)).get(partition));
            var at = result.putArray("at");
            for (JsonNode timestamp : step.get("timestamps")) {
                OffsetAndTimestamp found =
                        consumer.offsetsForTimes(Map.of(partition, timestamp.asLong())).get(partition);
                at.add(found == null ? -1 : found.offset());
            }
        }
    }

    private static void administer(Properties common, JsonNode step, ObjectNode result) throws Exception {
        String topic = step.path("topic").asText();
        try (Admin admin = Admin.create(common)) {
            switch (step.get("do").asText()) {
                case "create" -> {
                    Map<String, String> configs = JSON.convertValue(step.get("configs"), new TypeReference<>() {});
                    var wanted = new NewTopic(topic, Optional.of(step.get("partitions").asInt()), Optional.of((short) 1));
                    admin.createTopics(List.of(wanted.configs(configs))).all().get();
                }
                case "delete" -> admin.deleteTopics(List.of(topic)).all().get();
                case "list" -> {
                    var names = result.putArray("topics");
                    admin.listTopics().names().get().stream().sorted().forEach(names::add);
                }
                case "describe" -> {
                    var described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
                    result.put("partitions", described.partitions().size());
                    var leaders = described.partitions().stream().map(one -> one.leader().id()).distinct();
                    result.put("leaders", leaders.count());
                    result.put("has_id", !described.topicId().equals(org.apache.kafka.common.Uuid.ZERO_UUID));
                    result.put("brokers", admin.describeCluster().nodes().get().size());
                }
                case "grow" -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(step.get("partitions").asInt())))
                        .all()
                        .get();
                case "rotate" -> {
                    for (int round = 0; round < step.get("rounds").asInt(); round++) {
                        rotateLeaders(admin, topic);
                        Thread.sleep(step.get("pause_ms").asLong());
                    }
                }
                case "alter" -> {
                    Collection<AlterConfigOp> changes = new ArrayList<>();
                    step.get("configs").properties().forEach(entry -> changes.add(new AlterConfigOp(
                            new ConfigEntry(entry.getKey(), entry.getValue().asText()), AlterConfigOp.OpType.SET)));
                    admin.incrementalAlterConfigs(Map.of(resource(topic), changes)).all().get();
                }
                case "configs" -> {
                    var config = admin.describeConfigs(List.of(resource(topic))).all().get().get(resource(topic));
                    for (JsonNode name : step.get("names")) {
                        result.put(name.asText(), config.get(name.asText()).value());
                    }
                }
                case "trim" -> {
                    var partition = new TopicPartition(topic, step.get("partition").asInt());
                    var upTo = RecordsToDelete.beforeOffset(step.get("before").asLong());
                    var deleted = admin.deleteRecords(Map.of(partition, upTo)).lowWatermarks().get(partition).get();
                    result.put("begin", deleted.lowWatermark());
                }
                case "fails" -> {
                    var errors = result.putObject("errors");
                    errors.put("create again", refusal(() -> admin.createTopics(
                            List.of(new NewTopic(topic, 1, (short) 1))).all().get()));
                    errors.put("delete unknown", refusal(() -> admin.deleteTopics(List.of("nowhere")).all().get()));
                    errors.put("illegal name", refusal(() -> admin.createTopics(
                            List.of(new NewTopic("a b", 1, (short) 1))).all().get()));
                }
                default -> throw new IllegalArgumentException(step.toString());
            }
        }
    }

    /** Makes the second replica of each partition the first, and the leader. Returns once it is. */
    private static void rotateLeaders(Admin admin, String topic) throws Exception {
        Map<TopicPartition, Optional<NewPartitionReassignment>> wanted = new HashMap<>();
        Map<Integer, Integer> leaders = new HashMap<>();
        for (var info : admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions()) {
            List<Integer> replicas = new ArrayList<>(info.replicas().stream().map(Node::id).toList());
            Collections.rotate(replicas, -1);
            leaders.put(info.partition(), replicas.get(0));
            wanted.put(
                    new TopicPartition(topic, info.partition()), Optional.of(new NewPartitionReassignment(replicas)));
        }
        admin.alterPartitionReassignments(wanted).all().get();
        long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (true) {
            // A replica that is not in sync cannot be elected yet, and one that leads already need not be.
            admin.electLeaders(ElectionType.PREFERRED, wanted.keySet()).partitions().get();
            var found = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions();
            if (found.stream().allMatch(one -> one.leader() != null && one.leader().id() == leaders.get(one.partition()))) {
                return;
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("the leaders were not moved");
            }
            Thread.sleep(50);
        }
    }

    private interface Attempt {
        void run() throws Exception;
    }

    /** The error that a broker gave, by the name that the protocol has for it. */
    private static String refusal(Attempt attempt) throws Exception {
        try {
            attempt.run();
            return "NONE";
        } catch (ExecutionException refused) {
            return org.apache.kafka.common.protocol.Errors.forException(refused.getCause()).name();
        }
    }

    private static ConfigResource resource(String topic) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    /** What was read from one partition. */
    static final class Tally {
        private final MessageDigest digest = digest();
        private long count;
        private long first = -1;
        private long last = -1;

        private static MessageDigest digest() {
            try {
                return MessageDigest.getInstance("SHA-256");
            } catch (java.security.NoSuchAlgorithmException impossible) {
                throw new IllegalStateException(impossible);
            }
        }

        void add(ConsumerRecord<byte[], byte[]> record, boolean withTimestamps) throws IOException {
            var encoded = new ByteArrayOutputStream();
            var out = new DataOutputStream(encoded);
            write(out, record.key());
            write(out, record.value());
            Header[] headers = record.headers().toArray();
            out.writeInt(headers.length);
            for (Header header : headers) {
                write(out, header.key().getBytes(StandardCharsets.UTF_8));
                write(out, header.value());
            }
            out.writeLong(withTimestamps ? record.timestamp() : 0);
            digest.update(encoded.toByteArray());
            first = count == 0 ? record.offset() : first;
            last = record.offset();
            count += 1;
        }

        private static void write(DataOutputStream out, byte[] data) throws IOException {
            out.writeInt(data == null ? -1 : data.length);
            if (data != null) {
                out.write(data);
            }
        }

        void report(ObjectNode into) {
            into.put("count", count);
            into.put("first", first);
            into.put("last", last);
            into.put("sha256", sha256());
        }

        String sha256() {
            return HexFormat.of().formatHex(digest.digest());
        }
    }
}

// One member of a consumer group with the Java client. See ../README.md for what goes in and out.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public final class Member implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Map<String, Class<?>> ASSIGNORS = Map.of(
            "range", RangeAssignor.class,
            "roundrobin", RoundRobinAssignor.class,
            "sticky", StickyAssignor.class,
            "cooperative-sticky", CooperativeStickyAssignor.class);

    private final String topic;
    private final boolean commitsEach;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final TreeSet<Integer> owned = new TreeSet<>();
    private boolean isDirty;

    private Member(JsonNode config) {
        topic = config.get("topic").asText();
        commitsEach = config.get("commits").asText().equals("each");
        Properties properties = new Properties();
        properties.put("bootstrap.servers", config.get("bootstrap").asText());
        properties.put("client.id", config.get("name").asText());
        properties.put("group.id", config.get("group").asText());
        if (!config.get("instance").isNull()) {
            properties.put("group.instance.id", config.get("instance").asText());
        }
        properties.put(
                "partition.assignment.strategy",
                ASSIGNORS.get(config.get("assignor").asText()).getName());
        properties.put("session.timeout.ms", config.get("session_ms").asText());
        properties.put("heartbeat.interval.ms", config.get("heartbeat_ms").asText());
        properties.put("max.poll.interval.ms", "30000");
        properties.put("max.poll.records", "50");
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("fetch.max.wait.ms", "50");
        properties.put("reconnect.backoff.max.ms", "500");
        // Otherwise it forgets its topics when its only broker is away, and joins again when it hears of them.
        properties.put("metadata.recovery.strategy", "none");
        consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(topic), this);
    }

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Member member = new Member(JSON.readTree(input.readLine()));
        Queue<JsonNode> orders = new ConcurrentLinkedQueue<>();
        Thread listener = new Thread(() -> listen(input, orders));
        listener.setDaemon(true);
        listener.start();
        member.run(orders);
    }

    /** The end of the input is an order to leave, too. */
    private static void listen(BufferedReader input, Queue<JsonNode> orders) {
        try {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                orders.add(JSON.readTree(line));
            }
        } catch (IOException broken) {
            throw new UncheckedIOException(broken);
        } finally {
            orders.add(JSON.createObjectNode().put("do", "leave"));
        }
    }

    private void run(Queue<JsonNode> orders) throws IOException {
        while (true) {
            for (JsonNode order = orders.poll(); order != null; order = orders.poll()) {
                if (order.get("do").asText().equals("leave")) {
                    consumer.close();
                    return;
                }
                carryOut(order);
            }
            isDirty = (deliver() && commitsEach) || isDirty;
            if (isDirty) {
                commit();
            }
        }
    }

    /** Whether anything came. */
    private boolean deliver() throws IOException {
        var polled = consumer.poll(POLL);
        for (TopicPartition partition : polled.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> records = polled.records(partition);
            ObjectNode event = JSON.createObjectNode();
            event.put("partition", partition.partition());
            event.put("offset", records.get(0).offset());
            var hashes = event.putArray("hashes");
            for (ConsumerRecord<byte[], byte[]> record : records) {
                var tally = new Driver.Tally();
                tally.add(record, true);
                hashes.add(tally.sha256());
            }
            say(event);
        }
        return !polled.isEmpty();
    }

    /** Where it is refused, the next one makes up for it. */
    private void commit() {
        try {
            consumer.commitSync();
            isDirty = false;
        } catch (CommitFailedException | RebalanceInProgressException | RetriableException refused) {
            failed("commit", refused.toString());
        }
    }

    private void carryOut(JsonNode order) {
        String what = order.get("do").asText();
        var partition = new TopicPartition(topic, order.path("partition").asInt());
        switch (what) {
            case "commit" -> consumer.commitSync();
            case "commit async" -> {
                consumer.commitAsync((offsets, refused) -> {
                    if (refused == null) {
                        say(JSON.createObjectNode().put("done", what));
                    } else {
                        failed(what, refused.toString());
                    }
                });
                return;
            }
            case "seek" -> consumer.seek(partition, order.get("offset").asLong());
            case "pause" -> consumer.pause(List.of(partition));
            case "resume" -> consumer.resume(List.of(partition));
            default -> throw new IllegalArgumentException(order.toString());
        }
        say(JSON.createObjectNode().put("done", what));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        partitions.forEach(partition -> owned.add(partition.partition()));
        sayOwned();
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        if (isDirty) {
            commit();
        }
        partitions.forEach(partition -> owned.remove(partition.partition()));
        sayOwned();
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        failed("ownership", "lost");
        partitions.forEach(partition -> owned.remove(partition.partition()));
        sayOwned();
    }

    private void sayOwned() {
        ObjectNode event = JSON.createObjectNode();
        var partitions = event.putArray("owned");
        owned.forEach(partitions::add);
        say(event);
    }

    private static void failed(String what, String error) {
        say(JSON.createObjectNode().put("failed", what).put("error", error));
    }

    private static void say(ObjectNode event) {
        System.out.println(event);
        System.out.flush();
    }
}

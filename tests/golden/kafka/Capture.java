import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;

/**
 * Asks Kafka's own code for bytes: one JSON object per line in, the same with "hex" added out.
 *
 * A line with "message" is a protocol message in the form of Kafka's JSON converters; it comes back with its bytes and
 * those of its header. A line with "batch" is a record batch to build.
 */
public final class Capture {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String CLIENT_ID = "golden";
    private static final int CORRELATION_ID = 7;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode asked = (ObjectNode) JSON.readTree(line);
            ObjectNode answered = asked.has("message") ? captureMessage(asked) : captureBatch(asked);
            System.out.write((JSON.writeValueAsString(answered) + "\n").getBytes(StandardCharsets.UTF_8));
        }
        System.out.flush();
    }

    private static ObjectNode captureMessage(ObjectNode asked) throws Exception {
        String[] name = asked.get("message").asText().split(" ");
        boolean request = name[1].equals("request");
        short version = asked.get("version").shortValue();
        ApiKeys api = ApiKeys.forId(asked.get("key").intValue());
        Class<?> converter = Class.forName("org.apache.kafka.common.message."
            + name[0] + (request ? "Request" : "Response") + "DataJsonConverter");
        Message message = (Message) converter.getMethod("read", JsonNode.class, short.class)
            .invoke(null, asked.get("value"), version);
        asked.put("hex", hex(MessageUtil.toByteBufferAccessor(message, version).buffer()));
        if (request) {
            RequestHeader header = new RequestHeader(api, version, CLIENT_ID, CORRELATION_ID);
            asked.put("header", hex(MessageUtil.toByteBufferAccessor(header.data(), header.headerVersion()).buffer()));
        } else {
            ResponseHeader header = new ResponseHeader(CORRELATION_ID, api.responseHeaderVersion(version));
            asked.put("header", hex(MessageUtil.toByteBufferAccessor(header.data(), header.headerVersion()).buffer()));
        }
        return asked;
    }

    private static ObjectNode captureBatch(ObjectNode asked) {
        JsonNode batch = asked.get("batch");
        JsonNode appendTime = batch.get("append_time_ms");
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1024),
            RecordBatch.MAGIC_VALUE_V2,
            Compression.of(CompressionType.forId(batch.get("codec").intValue())).build(),
            appendTime.isNull() ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME,
            batch.get("base_offset").longValue(),
            appendTime.isNull() ? RecordBatch.NO_TIMESTAMP : appendTime.longValue(),
            batch.get("producer_id").longValue(),
            batch.get("producer_epoch").shortValue(),
            batch.get("base_sequence").intValue(),
            batch.get("transactional").booleanValue(),
            batch.get("leader_epoch").intValue());
        for (JsonNode record : asked.get("records")) {
            Header[] headers = new Header[record.get("headers").size()];
            for (int i = 0; i < headers.length; i++) {
                JsonNode header = record.get("headers").get(i);
                headers[i] = new RecordHeader(header.get(0).asText(), bytes(header.get(1)));
            }
            builder.appendWithOffset(
                record.get("offset").longValue(), record.get("timestamp_ms").longValue(),
                bytes(record.get("key")), repeated(bytes(record.get("value")), record.get("times").intValue()), headers);
        }
        asked.put("hex", hex(builder.build().buffer()));
        return asked;
    }

    private static byte[] bytes(JsonNode node) {
        return node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    private static byte[] repeated(byte[] value, int times) {
        if (value == null) {
            return null;
        }
        ByteBuffer all = ByteBuffer.allocate(value.length * times);
        for (int i = 0; i < times; i++) {
            all.put(value);
        }
        return all.array();
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}

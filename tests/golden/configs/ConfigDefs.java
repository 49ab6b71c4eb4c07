import java.lang.reflect.Method;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints, tab-separated, what Apache Kafka says about its own settings, and what it answers to good and bad values.
 * `kafka-4.1.1.tsv` beside this file is its output:
 *
 *     java -cp "<kafka's jars>/*" ConfigDefs.java
 */
public class ConfigDefs {
    static final String[][] TRIALS = {
        {"x", "1"}, {"message.format.version", "3.0"}, {"message.downconversion.enable", "true"},
        {"segment.bytes", "abc"}, {"segment.bytes", "1"}, {"segment.bytes", ""}, {"segment.bytes", " 2097152 "},
        {"segment.bytes", "99999999999"}, {"segment.bytes", "+2097152"}, {"segment.bytes", "1e7"},
        {"segment.bytes", "0x200000"}, {"segment.bytes", "2_097_152"}, {"segment.bytes", "2097152.0"},
        {"segment.bytes", "-99999999999999999999999999"}, {"segment.bytes", "2147483647"}, {"segment.bytes", "2147483648"},
        {"retention.ms", "-2"}, {"retention.ms", "-1"}, {"retention.ms", "0"}, {"retention.ms", "x"},
        {"retention.ms", "9223372036854775807"}, {"retention.ms", "9223372036854775808"}, {"retention.bytes", "-5"},
        {"cleanup.policy", "foo"}, {"cleanup.policy", ""}, {"cleanup.policy", "compact,delete"},
        {"cleanup.policy", " compact , delete "}, {"cleanup.policy", "delete,delete"}, {"cleanup.policy", "delete,"},
        {"cleanup.policy", "Delete"}, {"cleanup.policy", "delete,foo,bar"},
        {"compression.type", "foo"}, {"compression.type", "GZIP"}, {"compression.type", "none"}, {"compression.type", "zstd"},
        {"compression.gzip.level", "0"}, {"compression.gzip.level", "10"}, {"compression.gzip.level", "-1"},
        {"compression.lz4.level", "0"}, {"compression.lz4.level", "18"}, {"compression.zstd.level", "23"},
        {"message.timestamp.type", "foo"}, {"message.timestamp.type", "createtime"}, {"message.timestamp.type", " CreateTime "},
        {"preallocate", "yes"}, {"preallocate", "TRUE"}, {"preallocate", ""}, {"preallocate", " true "},
        {"min.cleanable.dirty.ratio", "2"}, {"min.cleanable.dirty.ratio", "abc"}, {"min.cleanable.dirty.ratio", "1e-3"},
        {"min.cleanable.dirty.ratio", "0.5f"}, {"min.cleanable.dirty.ratio", "-0.1"}, {"min.cleanable.dirty.ratio", "1_0"},
        {"min.compaction.lag.ms", "-1"}, {"max.compaction.lag.ms", "0"}, {"min.insync.replicas", "0"},
        {"flush.messages", "0"}, {"flush.ms", "-1"}, {"max.message.bytes", "-1"}, {"index.interval.bytes", "-1"},
        {"segment.ms", "0"}, {"segment.index.bytes", "3"}, {"segment.jitter.ms", "-1"}, {"delete.retention.ms", "-1"},
        {"leader.replication.throttled.replicas", "foo"}, {"leader.replication.throttled.replicas", "*"},
        {"leader.replication.throttled.replicas", "0:1,1:2"}, {"leader.replication.throttled.replicas", "none"},
        {"leader.replication.throttled.replicas", ""}, {"leader.replication.throttled.replicas", "0:1, 1:2"},
        {"follower.replication.throttled.replicas", "0:1,x"}, {"local.retention.ms", "-3"}, {"local.retention.bytes", "-3"},
        {"message.timestamp.before.max.ms", "-1"}, {"message.timestamp.after.max.ms", "-1"},
        {"internal.segment.bytes", "1000"}, {"internal.segment.bytes", "x"},
    };

    public static void main(String[] arguments) throws Exception {
        Class<?> dynamicClass = Class.forName("kafka.server.DynamicBrokerConfig$");
        Object companion = dynamicClass.getField("MODULE$").get(null);
        Object dynamic = dynamicClass.getMethod("AllDynamicConfigs").invoke(companion);
        Method contains = dynamic.getClass().getMethod("contains", Object.class);

        for (ConfigDef.ConfigKey key : new TreeMap<>(LogConfig.configDefCopy().configKeys()).values()) {
            print("topic", key, true);
        }
        for (ConfigDef.ConfigKey key : new TreeMap<>(AbstractKafkaConfig.CONFIG_DEF.configKeys()).values()) {
            print("broker", key, (boolean) contains.invoke(dynamic, key.name));
        }
        for (var entry : new TreeMap<>(ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS).entrySet()) {
            List<String> names = entry.getValue().stream().map(synonym -> synonym.name()).toList();
            System.out.println("synonyms\t" + entry.getKey() + "\t" + String.join(",", names));
        }
        for (String[] trial : TRIALS) {
            Properties properties = new Properties();
            properties.put(trial[0], trial[1]);
            String answer = "";
            try {
                LogConfig.validate(properties);
            } catch (RuntimeException refusal) {
                answer = refusal.getMessage();
            }
            System.out.println("trial\t" + trial[0] + "\t" + trial[1] + "\t" + answer);
        }
    }

    static void print(String scope, ConfigDef.ConfigKey key, boolean dynamic) {
        String value = !key.hasDefault() ? "(required)"
            : key.defaultValue == null ? "(null)"
            : ConfigDef.convertToString(key.defaultValue, key.type);
        System.out.println(String.join("\t", scope, key.name, key.type.toString(), value,
            String.valueOf(dynamic), String.valueOf(key.internalConfig)));
    }
}

/* Making a librdkafka client from the options, and waiting until it has found the topic's leaders. */
#include "load.h"

#include <stdio.h>
#include <string.h>

static void set_property(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char problem[512];
    if (rd_kafka_conf_set(conf, name, value, problem, sizeof problem) != RD_KAFKA_CONF_OK)
        die("%s", problem);
}

/* "producer:" and "consumer:" bind a property to one kind of client; without either it goes to both. */
static const char *property_for(rd_kafka_type_t type, const char *property)
{
    static const char producer[] = "producer:", consumer[] = "consumer:";
    if (strncmp(property, producer, sizeof producer - 1) == 0)
        return type == RD_KAFKA_PRODUCER ? property + sizeof producer - 1 : NULL;
    if (strncmp(property, consumer, sizeof consumer - 1) == 0)
        return type == RD_KAFKA_CONSUMER ? property + sizeof consumer - 1 : NULL;
    return property;
}

rd_kafka_t *new_client(rd_kafka_type_t type, const Options *options,
                       void (*delivered)(rd_kafka_t *, const rd_kafka_message_t *, void *), void *opaque)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set_property(conf, "bootstrap.servers", options->brokers);
    if (type == RD_KAFKA_PRODUCER)
        set_property(conf, "acks", options->acks);
    for (int i = 0; i < options->property_count; i++) {
        const char *property = property_for(type, options->properties[i]);
        if (!property)
            continue;
        char name[128];
        size_t length = strcspn(property, "=");
        if (length >= sizeof name)
            die("property name too long: %s", property);
        memcpy(name, property, length);
        name[length] = '\0';
        set_property(conf, name, property + length + 1);
    }
    if (delivered)
        rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_conf_set_opaque(conf, opaque);

    char problem[512];
    rd_kafka_t *client = rd_kafka_new(type, conf, problem, sizeof problem);
    if (!client)
        die("%s", problem);
    return client;
}

static bool has_leaders(const struct rd_kafka_metadata *metadata, const Options *options)
{
    if (metadata->topic_cnt != 1 || metadata->topics[0].err || metadata->topics[0].partition_cnt < options->partitions)
        return false;
    for (int i = 0; i < metadata->topics[0].partition_cnt; i++)
        if (metadata->topics[0].partitions[i].leader < 0)
            return false;
    return true;
}

rd_kafka_topic_t *find_topic(rd_kafka_t *client, const Options *options)
{
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options->topic, NULL);
    if (!topic)
        die("topic %s: %s", options->topic, rd_kafka_err2str(rd_kafka_last_error()));
    for (;;) {
        const struct rd_kafka_metadata *metadata;
        rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, topic, &metadata, 2000);
        bool ready = !error && has_leaders(metadata, options);
        if (!error)
            rd_kafka_metadata_destroy(metadata);
        if (ready)
            return topic;
        check_deadline("waiting for the topic's leaders");
    }
}

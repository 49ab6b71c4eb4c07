/* Open-loop latency from the planned send to the consumer's hand, producer and consumer in one process.
 *
 * Message k is due at start + k / rate, whatever happened to those before it, and carries that instant; a stall of
 * broker or sender is thus charged to every message that was due meanwhile. The sender sleeps between sends (on two
 * cores a spinning sender would take one from the broker); how late it woke is reported beside the latency.
 * With rate_per_s=0 messages are due when the client accepts them: that measures saturation, not latency.
 */
#include "load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* Waking more often than this would spend more on wake-ups than the lateness it avoids is worth. */
enum { TICK_NS = 100000 };

typedef struct {
    int64_t planned_ns;
    int64_t sequence;
} Stamp;

typedef struct {
    const Options *options;
    int64_t count_from_ns; /* Messages planned before this are warm-up. Set before the first is sent. */
    int64_t *sequence_next; /* By partition. */
    int64_t received;
    Course course;
    Histogram latency;
    atomic_bool ready;
} Receiver;

static void on_message(rd_kafka_message_t *message, void *opaque)
{
    Receiver *receiver = opaque;
    int64_t arrived_ns = now_ns();
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        return;
    if (message->err)
        die("consume: %s", rd_kafka_message_errstr(message));
    Stamp stamp;
    memcpy(&stamp, message->payload, sizeof stamp);
    if (stamp.sequence != receiver->sequence_next[message->partition])
        die("partition %d: message %lld came where %lld was due", message->partition, (long long)stamp.sequence,
            (long long)receiver->sequence_next[message->partition]);
    receiver->sequence_next[message->partition] += receiver->options->partitions;
    if (stamp.planned_ns >= receiver->count_from_ns)
        histogram_add(&receiver->latency, (arrived_ns - stamp.planned_ns) / 1000);
    if (++receiver->received == 1)
        receiver->course.first_ns = arrived_ns;
    if (receiver->received == receiver->options->messages / 2)
        receiver->course.half_ns = arrived_ns;
}

static void *receive(void *argument)
{
    Receiver *receiver = argument;
    const Options *options = receiver->options;
    rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, options, NULL, receiver);
    rd_kafka_topic_t *topic = find_topic(client, options);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    for (int32_t partition = 0; partition < options->partitions; partition++) {
        receiver->sequence_next[partition] = partition;
        if (rd_kafka_consume_start_queue(topic, partition, 0, queue) != 0)
            die("consume start: %s", rd_kafka_err2str(rd_kafka_last_error()));
    }
    atomic_store(&receiver->ready, true);
    while (receiver->received < options->messages) {
        if (rd_kafka_consume_callback_queue(queue, 100, on_message, receiver) < 0)
            die("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
        check_deadline("receiving");
    }
    receiver->course.end_ns = now_ns();
    return NULL;
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    (void)client;
    (void)opaque;
    if (message->err)
        die("not delivered: %s", rd_kafka_err2str(message->err));
}

static void sleep_until(int64_t due_ns)
{
    struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) != 0) {
    }
}

static void send_one(rd_kafka_t *client, rd_kafka_topic_t *topic, const Options *options, Stamp stamp, char *payload)
{
    memcpy(payload, &stamp, sizeof stamp);
    int32_t partition = (int32_t)(stamp.sequence % options->partitions);
    while (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, payload, options->message_bytes, NULL, 0, NULL) != 0) {
        if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            die("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(client, 1);
        check_deadline("sending");
    }
}

int run_end_to_end(const Options *options)
{
    prctl(PR_SET_TIMERSLACK, 1); /* The default slack of 50 us would be measured as lateness. */
    static char payload[PAYLOAD_BYTES_MAX];
    Receiver *receiver = calloc(1, sizeof *receiver);
    Histogram *lateness = calloc(1, sizeof *lateness);
    receiver->options = options;
    receiver->sequence_next = calloc((size_t)options->partitions, sizeof(int64_t));
    receiver->count_from_ns = INT64_MAX; /* Until the plan is made. */

    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, options, on_delivery, NULL);
    rd_kafka_topic_t *topic = find_topic(client, options);
    pthread_t thread;
    if (pthread_create(&thread, NULL, receive, receiver) != 0)
        die("no thread for the receiver");
    while (!atomic_load(&receiver->ready)) {
        sleep_until(now_ns() + 1000000);
        check_deadline("connecting the receiver");
    }

    int64_t start_ns = now_ns() + 1000000;
    double interval_ns = options->rate_per_s > 0 ? 1e9 / options->rate_per_s : 0;
    receiver->count_from_ns = start_ns + (int64_t)(options->warm_up_s * 1e9);
    receiver->course.start_ns = start_ns;
    for (int64_t sequence = 0; sequence < options->messages; sequence++) {
        int64_t now = now_ns();
        int64_t planned_ns = interval_ns > 0 ? start_ns + (int64_t)((double)sequence * interval_ns) : now;
        if (planned_ns > now) {
            rd_kafka_poll(client, 0);
            sleep_until(planned_ns > now + TICK_NS ? planned_ns : now + TICK_NS);
            now = now_ns();
        } else if (sequence % 1024 == 0) {
            rd_kafka_poll(client, 0);
        }
        if (planned_ns >= receiver->count_from_ns)
            histogram_add(lateness, (now - planned_ns) / 1000);
        send_one(client, topic, options, (Stamp){planned_ns, sequence}, payload);
    }
    while (rd_kafka_outq_len(client) > 0) {
        rd_kafka_poll(client, 10);
        check_deadline("waiting for acknowledgements");
    }
    pthread_join(thread, NULL);
    print_report(receiver->received, receiver->received * (int64_t)options->message_bytes, &receiver->course,
                 &receiver->latency, lateness);
    return 0;
}

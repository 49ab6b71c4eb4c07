/* Producing to a new topic as fast as the client goes, until the broker has every message.
 *
 * The clock starts when the leaders are known and stops after the last delivery report. With acks=0 that report says
 * only that the kernel took the bytes, megabytes ahead of the broker, so there the clock stops when the log's end offsets
 * account for every message. They are compared with what was sent in every case. The latency of every 64th is kept.
 */
#include "load.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LATENCY_SAMPLE = 64, POLL_INTERVAL = 1024 };

typedef struct {
    const Options *options;
    int64_t messages;
    int64_t delivered;
    Course course;
    Histogram latency;
    pthread_barrier_t *start;
} Producer;

static char payload[PAYLOAD_BYTES_MAX]; /* Shared and never written again: clients send it without a copy. */

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    (void)client;
    Producer *producer = opaque;
    if (message->err)
        die("not delivered: %s", rd_kafka_err2str(message->err));
    if (++producer->delivered == 1)
        producer->course.first_ns = now_ns();
    if (producer->delivered % LATENCY_SAMPLE == 0)
        histogram_add(&producer->latency, rd_kafka_message_latency(message));
    if (producer->delivered == producer->messages / 2)
        producer->course.half_ns = now_ns();
}

static void *produce(void *argument)
{
    Producer *producer = argument;
    const Options *options = producer->options;
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, options, on_delivery, producer);
    rd_kafka_topic_t *topic = find_topic(client, options);
    int32_t partition = 0;

    pthread_barrier_wait(producer->start);
    producer->course.start_ns = now_ns();
    for (int64_t sent = 0; sent < producer->messages;) {
        if (rd_kafka_produce(topic, partition, 0, payload, options->message_bytes, NULL, 0, NULL) == 0) {
            partition = partition + 1 < options->partitions ? partition + 1 : 0;
            if (++sent % POLL_INTERVAL == 0)
                rd_kafka_poll(client, 0);
        } else if (rd_kafka_last_error() == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            rd_kafka_poll(client, 10);
            check_deadline("producing");
        } else {
            die("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
        }
    }
    while (producer->delivered < producer->messages) {
        rd_kafka_poll(client, 10);
        check_deadline("waiting for acknowledgements");
    }
    producer->course.end_ns = now_ns();
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    return NULL;
}

void wait_appended(const Options *options)
{
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, options, NULL, NULL);
    for (;;) {
        int64_t appended = 0;
        for (int32_t partition = 0; partition < options->partitions; partition++) {
            int64_t low, high;
            rd_kafka_resp_err_t error =
                rd_kafka_query_watermark_offsets(client, options->topic, partition, &low, &high, 10000);
            if (error)
                die("end offset of partition %d: %s", partition, rd_kafka_err2str(error));
            appended += high;
        }
        if (appended > options->messages)
            die("the log holds %lld messages, %lld were sent", (long long)appended, (long long)options->messages);
        if (appended == options->messages)
            break;
        check_deadline("waiting for the log to hold every message");
    }
    rd_kafka_destroy(client);
}

int run_produce(const Options *options)
{
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (char)('a' + i % 26);

    Producer *producers = calloc((size_t)options->clients, sizeof *producers);
    pthread_t threads[CLIENTS_MAX];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)options->clients);
    for (int i = 0; i < options->clients; i++) {
        producers[i].options = options;
        producers[i].messages = options->messages / options->clients + (i < options->messages % options->clients);
        producers[i].start = &start;
        if (pthread_create(&threads[i], NULL, produce, &producers[i]) != 0)
            die("no thread for client %d", i);
    }

    Producer *total = calloc(1, sizeof *total);
    total->course = course_over_all();
    for (int i = 0; i < options->clients; i++) {
        pthread_join(threads[i], NULL);
        const Producer *one = &producers[i];
        total->delivered += one->delivered;
        course_add(&total->course, &one->course);
        histogram_merge(&total->latency, &one->latency);
    }
    wait_appended(options);
    if (strcmp(options->acks, "0") == 0)
        total->course.end_ns = now_ns();
    print_report(total->delivered, total->delivered * (int64_t)options->message_bytes, &total->course,
                 &total->latency, NULL);
    free(total);
    free(producers);
    return 0;
}

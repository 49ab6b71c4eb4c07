/* Reading whole partitions from their first offset, as fast as the client goes; several clients each read everything.
 *
 * Partitions are assigned, not subscribed, so that no group stands between the reader and the log. Each partition's
 * offsets must come without a gap, else the load fails.
 */
#include "load.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct {
    const Options *options;
    int64_t *offset_next; /* By partition. */
    int64_t messages;
    int64_t bytes;
    Course course;
    pthread_barrier_t *start;
} Consumer;

static void on_message(rd_kafka_message_t *message, void *opaque)
{
    Consumer *consumer = opaque;
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        return;
    if (message->err)
        die("consume: %s", rd_kafka_message_errstr(message));
    if (message->offset != consumer->offset_next[message->partition])
        die("partition %d: offset %lld came where %lld was due", message->partition, (long long)message->offset,
            (long long)consumer->offset_next[message->partition]);
    consumer->offset_next[message->partition]++;
    consumer->bytes += (int64_t)message->len;
    if (++consumer->messages == 1)
        consumer->course.first_ns = now_ns();
    if (consumer->messages == consumer->options->messages / 2)
        consumer->course.half_ns = now_ns();
}

static void *consume(void *argument)
{
    Consumer *consumer = argument;
    const Options *options = consumer->options;
    rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, options, NULL, consumer);
    rd_kafka_topic_t *topic = find_topic(client, options);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);

    pthread_barrier_wait(consumer->start);
    consumer->course.start_ns = now_ns();
    for (int32_t partition = 0; partition < options->partitions; partition++)
        if (rd_kafka_consume_start_queue(topic, partition, 0, queue) != 0)
            die("consume start: %s", rd_kafka_err2str(rd_kafka_last_error()));
    while (consumer->messages < options->messages) {
        if (rd_kafka_consume_callback_queue(queue, 100, on_message, consumer) < 0)
            die("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
        check_deadline("consuming");
    }
    consumer->course.end_ns = now_ns();
    /* Stopping a thousand partitions one by one takes seconds; the process ends with the report anyway. */
    return NULL;
}

int run_consume(const Options *options)
{
    Consumer *consumers = calloc((size_t)options->clients, sizeof *consumers);
    pthread_t threads[CLIENTS_MAX];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)options->clients);
    for (int i = 0; i < options->clients; i++) {
        consumers[i].options = options;
        consumers[i].offset_next = calloc((size_t)options->partitions, sizeof(int64_t));
        consumers[i].start = &start;
        if (pthread_create(&threads[i], NULL, consume, &consumers[i]) != 0)
            die("no thread for client %d", i);
    }

    int64_t messages = 0, bytes = 0;
    Course course = course_over_all();
    for (int i = 0; i < options->clients; i++) {
        pthread_join(threads[i], NULL);
        const Consumer *one = &consumers[i];
        messages += one->messages;
        bytes += one->bytes;
        course_add(&course, &one->course);
    }
    print_report(messages, bytes, &course, NULL, NULL);
    return 0;
}

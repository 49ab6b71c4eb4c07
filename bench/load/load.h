/* What the loads share: options, clock, deadline, histogram, client set-up, the report.
 *
 * A load is one process that does a bounded amount of work against one broker and prints one JSON object to
 * standard output. It exits 0 only if all of the work was done and checked: a lost, reordered or refused message, or a
 * passed deadline, ends it with a sentence on standard error and status 1.
 */
#ifndef LOAD_H
#define LOAD_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROPERTIES_MAX = 32, CLIENTS_MAX = 64, PAYLOAD_BYTES_MAX = 1 << 20 };

typedef struct {
    const char *brokers;
    const char *topic;
    int32_t partitions;
    int64_t messages;      /* Per client when consuming, in all when producing. */
    size_t message_bytes;
    int clients;           /* Client instances, each with its own connections and threads. */
    const char *acks;      /* As Kafka spells it: 0, 1 or all. */
    double rate_per_s;     /* Open loop; 0 means as fast as the client accepts. */
    double warm_up_s;      /* Planned in this first part of a paced run: sent and checked, not in the histogram. */
    double deadline_s;
    const char *request_file; /* For the bare loads: what to send, see bare.h. */
    const char *properties[PROPERTIES_MAX]; /* "producer:name=value", "consumer:name=value" or "name=value". */
    int property_count;
} Options;

Options parse_options(int argc, char **argv);

int64_t now_ns(void);            /* CLOCK_MONOTONIC, which every process of one host shares. */
void set_deadline(double seconds);
bool past_deadline(void);
void check_deadline(const char *doing);
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Latencies in microseconds, log-linear: 128 steps for each power of two, so an error below 0.8%. */
enum { HISTOGRAM_STEPS = 128, HISTOGRAM_BUCKETS = HISTOGRAM_STEPS * 40 };
typedef struct {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t count;
    uint64_t max_us;
} Histogram;

void histogram_add(Histogram *histogram, int64_t us);
void histogram_merge(Histogram *into, const Histogram *from);
void histogram_print(const char *name, const Histogram *histogram);

/* A client ready to work: connected, with the topic's leader known, so that the clock may start. */
rd_kafka_t *new_client(rd_kafka_type_t type, const Options *options,
                       void (*delivered)(rd_kafka_t *, const rd_kafka_message_t *, void *), void *opaque);
rd_kafka_topic_t *find_topic(rd_kafka_t *client, const Options *options);

/* When the work began, and when shares of it were done, over all clients; the reader of the report aligns CPU and memory samples with it. */
typedef struct {
    int64_t start_ns;
    int64_t first_ns; /* The first message done. */
    int64_t half_ns;
    int64_t end_ns;
} Course;

Course course_over_all(void);
void course_add(Course *all, const Course *one);

void print_report(int64_t messages, int64_t bytes, const Course *course, const Histogram *latency,
                  const Histogram *lateness);

/* Wait until the log holds exactly what was sent; more would be duplicates, and fails. */
void wait_appended(const Options *options);

int run_produce(const Options *options);
int run_consume(const Options *options);
int run_end_to_end(const Options *options);
int run_bare_produce(const Options *options);
int run_bare_consume(const Options *options);

#endif

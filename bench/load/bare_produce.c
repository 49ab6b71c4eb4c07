/* Producing one batch over and over on one connection, as fast as the broker takes it.
 *
 * Up to five requests are in flight, as with Kafka's own clients. Every answer must name the offset that follows the batch
 * before, and the log's end is compared with what was sent. The clock stops with the last answer; the latency of a
 * request counts from its first byte out.
 */
#include "bare.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { IN_FLIGHT_MAX = 5, POLL_MS = 1000 };

typedef struct {
    int connection;
    Template template;
    int64_t requests;
    int64_t begun;    /* Requests of which at least one byte was sent. */
    int64_t answered;
    size_t left_bytes; /* Of the last that was begun. */
    int64_t begun_ns[IN_FLIGHT_MAX];
    Course course;
    Histogram latency;
} Producer;

static bool may_send(const Producer *producer)
{
    bool may_begin = producer->begun < producer->requests && producer->begun - producer->answered < IN_FLIGHT_MAX;
    return producer->left_bytes > 0 || may_begin;
}

static void send_some(Producer *producer)
{
    const Template *template = &producer->template;
    if (producer->left_bytes == 0) {
        put_int32(template->request + template->correlation_at, (int32_t)producer->begun);
        producer->begun_ns[producer->begun++ % IN_FLIGHT_MAX] = now_ns();
        producer->left_bytes = template->request_bytes;
    }
    const uint8_t *left = template->request + template->request_bytes - producer->left_bytes;
    ssize_t sent = send(producer->connection, left, producer->left_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0)
        producer->left_bytes -= (size_t)sent;
    else if (errno != EAGAIN && errno != EINTR)
        die("send: %s", strerror(errno));
}

static void take_answer(Producer *producer)
{
    static uint8_t answer[ANSWER_BYTES_MAX];
    const Template *template = &producer->template;
    receive_answer(producer->connection, answer, template, (int32_t)producer->answered, sizeof(int64_t));
    int64_t base_offset = int64_at(answer + template->result_at);
    int64_t due = producer->answered * template->messages;
    if (base_offset != due)
        die("a batch was given offset %lld where %lld was due", (long long)base_offset, (long long)due);
    int64_t now = now_ns();
    histogram_add(&producer->latency, (now - producer->begun_ns[producer->answered % IN_FLIGHT_MAX]) / 1000);
    if (++producer->answered == 1)
        producer->course.first_ns = now;
    if (producer->answered == (producer->requests + 1) / 2)
        producer->course.half_ns = now;
    producer->course.end_ns = now;
}

int run_bare_produce(const Options *options)
{
    static Producer producer;
    producer.template = read_template(options);
    if (producer.template.messages < 1 || options->messages % producer.template.messages != 0)
        die("messages=%lld is no multiple of a request's %lld", (long long)options->messages,
            (long long)producer.template.messages);
    producer.requests = options->messages / producer.template.messages;
    producer.connection = connect_to_leader(options);

    producer.course.start_ns = now_ns();
    while (producer.answered < producer.requests) {
        struct pollfd ready = {.fd = producer.connection, .events = POLLIN};
        if (may_send(&producer))
            ready.events |= POLLOUT;
        if (poll(&ready, 1, POLL_MS) < 0 && errno != EINTR)
            die("poll: %s", strerror(errno));
        check_deadline("producing");
        if (ready.revents & POLLOUT)
            send_some(&producer);
        if (ready.revents & (POLLIN | POLLERR | POLLHUP))
            take_answer(&producer);
    }
    wait_appended(options);
    print_report(options->messages, options->messages * (int64_t)options->message_bytes, &producer.course,
                 &producer.latency, NULL);
    return 0;
}

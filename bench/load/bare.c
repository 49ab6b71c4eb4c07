/* Templates, the connection, and whole answers; see bare.h. */
#include "bare.h"

#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

int32_t int32_at(const uint8_t *at)
{
    uint32_t number;
    memcpy(&number, at, sizeof number);
    return (int32_t)be32toh(number);
}

int64_t int64_at(const uint8_t *at)
{
    uint64_t number;
    memcpy(&number, at, sizeof number);
    return (int64_t)be64toh(number);
}

void put_int32(uint8_t *at, int32_t number)
{
    uint32_t swapped = htobe32((uint32_t)number);
    memcpy(at, &swapped, sizeof swapped);
}

void put_int64(uint8_t *at, int64_t number)
{
    uint64_t swapped = htobe64((uint64_t)number);
    memcpy(at, &swapped, sizeof swapped);
}

static void read_exactly(FILE *file, uint8_t *into, size_t bytes)
{
    if (fread(into, 1, bytes, file) != bytes)
        die("the request's file is too short");
}

Template read_template(const Options *options)
{
    if (!options->request_file)
        die("request_file= is needed");
    FILE *file = fopen(options->request_file, "rb");
    if (!file)
        die("%s: %s", options->request_file, strerror(errno));
    uint8_t head[6 * sizeof(int32_t)];
    read_exactly(file, head, sizeof head);
    Template template = {
        .request_bytes = (size_t)int32_at(head),
        .correlation_at = (size_t)int32_at(head + 4),
        .offset_at = (size_t)int32_at(head + 8),
        .error_at = (size_t)int32_at(head + 12),
        .result_at = (size_t)int32_at(head + 16),
        .messages = int32_at(head + 20),
    };
    template.request = malloc(template.request_bytes);
    if (!template.request)
        die("no memory for a request of %zu bytes", template.request_bytes);
    read_exactly(file, template.request, template.request_bytes);
    fclose(file);
    return template;
}

static int connect_to(const char *brokers)
{
    char host[256];
    const char *colon = strrchr(brokers, ':');
    if (!colon || (size_t)(colon - brokers) >= sizeof host)
        die("brokers=%s is not one HOST:PORT", brokers);
    memcpy(host, brokers, (size_t)(colon - brokers));
    host[colon - brokers] = '\0';

    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int problem = getaddrinfo(host, colon + 1, &hints, &found);
    if (problem)
        die("%s: %s", brokers, gai_strerror(problem));
    int connection = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    if (connection < 0 || connect(connection, found->ai_addr, found->ai_addrlen) != 0)
        die("%s: %s", brokers, strerror(errno));
    freeaddrinfo(found);

    int on = 1;
    struct timeval second = {.tv_sec = 1}; /* So that a silent broker meets the deadline. */
    if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second) != 0)
        die("socket options: %s", strerror(errno));
    return connection;
}

/* librdkafka waits for the leader, as for the other loads; the one broker there is, is it. */
int connect_to_leader(const Options *options)
{
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, options, NULL, NULL);
    rd_kafka_topic_destroy(find_topic(client, options));
    rd_kafka_destroy(client);
    return connect_to(options->brokers);
}

static void receive_exactly(int connection, uint8_t *into, size_t bytes)
{
    while (bytes > 0) {
        ssize_t received = recv(connection, into, bytes, MSG_WAITALL);
        if (received == 0)
            die("the broker closed the connection");
        if (received > 0) {
            into += received;
            bytes -= (size_t)received;
        } else if (errno == EAGAIN || errno == EINTR) {
            check_deadline("waiting for an answer");
        } else {
            die("receive: %s", strerror(errno));
        }
    }
}

size_t receive_answer(int connection, uint8_t *answer, const Template *template, int32_t correlation_id,
                      size_t result_bytes)
{
    receive_exactly(connection, answer, FRAME_LENGTH_BYTES);
    int32_t length = int32_at(answer);
    if (length < 0 || length > ANSWER_BYTES_MAX - FRAME_LENGTH_BYTES)
        die("an answer of %d bytes", length);
    receive_exactly(connection, answer + FRAME_LENGTH_BYTES, (size_t)length);
    size_t bytes = FRAME_LENGTH_BYTES + (size_t)length;
    if (bytes < template->error_at + sizeof(int16_t) || bytes < template->result_at + result_bytes)
        die("an answer of %zu bytes, too short for its result", bytes);
    if (int32_at(answer + FRAME_LENGTH_BYTES) != correlation_id)
        die("the answer to request %d came where that to %d was due", int32_at(answer + FRAME_LENGTH_BYTES),
            correlation_id);
    int16_t error = (int16_t)(answer[template->error_at] << 8 | answer[template->error_at + 1]);
    if (error)
        die("request %d: %s", correlation_id, rd_kafka_err2str((rd_kafka_resp_err_t)error));
    return bytes;
}

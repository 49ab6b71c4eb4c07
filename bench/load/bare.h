/* What the bare loads share: a request made beforehand, and one TCP connection to send it on.
 *
 * The bare loads show the broker where librdkafka would show mostly itself: no message is made, compressed, checksummed or
 * opened. They know nothing of the protocol but numbers in network order, at positions that bench/bare.py found out, and
 * the head of a batch; positions count from the first byte of a frame, its length included.
 */
#ifndef BARE_H
#define BARE_H

#include "load.h"

/* Room for one answer: a partition's share of a fetch, or one batch that is larger, and what stands around it. */
enum { FRAME_LENGTH_BYTES = 4, ANSWER_BYTES_MAX = 4 << 20 };

typedef struct {
    uint8_t *request;
    size_t request_bytes;
    size_t correlation_at;
    size_t offset_at; /* Where to fetch from; in the request. */
    size_t error_at;  /* In the answer, as is the next. */
    size_t result_at; /* The base offset that was given, or the length of the records, which follow it. */
    int64_t messages; /* In one request. */
} Template;

Template read_template(const Options *options);

int connect_to_leader(const Options *options);

/* The next answer, whole, into a buffer of ANSWER_BYTES_MAX; returns its size. Another correlation id than the one due,
 * an error code, or too few bytes to hold a result of that size, ends the load. */
size_t receive_answer(int connection, uint8_t *answer, const Template *template, int32_t correlation_id,
                      size_t result_bytes);

int32_t int32_at(const uint8_t *at);
int64_t int64_at(const uint8_t *at);
void put_int32(uint8_t *at, int32_t number);
void put_int64(uint8_t *at, int64_t number);

#endif

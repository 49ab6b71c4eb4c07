/* Reading a partition from its first offset on one connection, batches counted and not opened.
 *
 * One fetch is in flight at a time, as with librdkafka. Batches must follow each other without a gap; the last of an answer
 * may be cut, and is asked for again. Nothing checks the records inside: that is the consumer's work, whose cost is
 * what this load leaves out.
 */
#include "bare.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* The fields of a batch's header that matter here. */
enum {
    LENGTH_AT = 8,
    LENGTH_END = 12,
    MAGIC_AT = 16,
    LAST_OFFSET_DELTA_AT = 23,
    RECORD_COUNT_AT = 57,
    HEADER_BYTES = 61,
    MAGIC = 2,
};

static void send_all(int connection, const uint8_t *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t sent = send(connection, data, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            die("send: %s", strerror(errno));
        if (sent > 0) {
            data += sent;
            bytes -= (size_t)sent;
        }
    }
}

/* The offset after the last whole batch. */
static int64_t walk_batches(const uint8_t *records, size_t bytes, int64_t offset_next)
{
    while (bytes >= HEADER_BYTES) {
        int64_t base_offset = int64_at(records);
        if (base_offset != offset_next)
            die("offset %lld came where %lld was due", (long long)base_offset, (long long)offset_next);
        int32_t length = int32_at(records + LENGTH_AT);
        int32_t count = int32_at(records + RECORD_COUNT_AT);
        if (length < HEADER_BYTES - LENGTH_END || records[MAGIC_AT] != MAGIC || count < 1 ||
            int32_at(records + LAST_OFFSET_DELTA_AT) != count - 1)
            die("no batch of a full log stands at offset %lld", (long long)offset_next);
        size_t batch_bytes = LENGTH_END + (size_t)length;
        if (batch_bytes > bytes)
            break;
        offset_next += count;
        records += batch_bytes;
        bytes -= batch_bytes;
    }
    return offset_next;
}

int run_bare_consume(const Options *options)
{
    static uint8_t answer[ANSWER_BYTES_MAX];
    Template template = read_template(options);
    int connection = connect_to_leader(options);
    size_t records_at = template.result_at + sizeof(int32_t);
    int64_t offset_next = 0;

    Course course = {.start_ns = now_ns()};
    for (int32_t asked = 0; offset_next < options->messages; asked++) {
        put_int32(template.request + template.correlation_at, asked);
        put_int64(template.request + template.offset_at, offset_next);
        send_all(connection, template.request, template.request_bytes);
        size_t answer_bytes = receive_answer(connection, answer, &template, asked, sizeof(int32_t));
        int32_t records_bytes = int32_at(answer + template.result_at);
        if (records_bytes > 0) {
            if (answer_bytes < records_at + (size_t)records_bytes)
                die("%d bytes of records in an answer of %zu", records_bytes, answer_bytes);
            int64_t offset_after = walk_batches(answer + records_at, (size_t)records_bytes, offset_next);
            if (offset_after == offset_next)
                die("no whole batch in the %d bytes for offset %lld", records_bytes, (long long)offset_next);
            offset_next = offset_after;
            if (!course.first_ns)
                course.first_ns = now_ns();
            if (!course.half_ns && offset_next >= options->messages / 2)
                course.half_ns = now_ns();
        }
        check_deadline("consuming");
    }
    course.end_ns = now_ns();
    if (offset_next != options->messages)
        die("the log holds %lld messages or more, %lld were due", (long long)offset_next, (long long)options->messages);
    print_report(offset_next, offset_next * (int64_t)options->message_bytes, &course, NULL, NULL);
    return 0;
}

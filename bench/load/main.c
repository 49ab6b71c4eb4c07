/* Options, deadline and the report; the loads are in files of their own. */
#include "load.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* There where the program was linked with jemalloc. */
extern int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size) __attribute__((weak));

static int64_t deadline_ns = INT64_MAX;

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void set_deadline(double seconds) { deadline_ns = now_ns() + (int64_t)(seconds * 1e9); }

bool past_deadline(void) { return now_ns() > deadline_ns; }

void check_deadline(const char *doing)
{
    if (past_deadline())
        die("deadline passed while %s", doing);
}

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    fflush(stderr);
    _exit(1); /* Client threads may still run; there is nothing of theirs worth waiting for. */
}

static const char *value_of(const char *argument, const char *name)
{
    size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1 : NULL;
}

static double number_between(const char *name, const char *text, double low, double high)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number >= low && number <= high))
        die("%s=%s is not a number in %g..%g", name, text, low, high);
    return number;
}

Options parse_options(int argc, char **argv)
{
    Options options = {.partitions = 1, .message_bytes = 200, .clients = 1, .acks = "1", .deadline_s = 60};
    for (int i = 0; i < argc; i++) {
        const char *value;
        if ((value = value_of(argv[i], "brokers")))
            options.brokers = value;
        else if ((value = value_of(argv[i], "topic")))
            options.topic = value;
        else if ((value = value_of(argv[i], "partitions")))
            options.partitions = (int32_t)number_between("partitions", value, 1, 100000);
        else if ((value = value_of(argv[i], "messages")))
            options.messages = (int64_t)number_between("messages", value, 1, 1e12);
        else if ((value = value_of(argv[i], "message_bytes")))
            options.message_bytes = (size_t)number_between("message_bytes", value, 16, PAYLOAD_BYTES_MAX);
        else if ((value = value_of(argv[i], "clients")))
            options.clients = (int)number_between("clients", value, 1, CLIENTS_MAX);
        else if ((value = value_of(argv[i], "acks")))
            options.acks = value;
        else if ((value = value_of(argv[i], "rate_per_s")))
            options.rate_per_s = number_between("rate_per_s", value, 0, 1e8);
        else if ((value = value_of(argv[i], "warm_up_s")))
            options.warm_up_s = number_between("warm_up_s", value, 0, 3600);
        else if ((value = value_of(argv[i], "deadline_s")))
            options.deadline_s = number_between("deadline_s", value, 0.1, 7200);
        else if ((value = value_of(argv[i], "request_file")))
            options.request_file = value;
        else if (strchr(argv[i], '=') && options.property_count < PROPERTIES_MAX)
            options.properties[options.property_count++] = argv[i];
        else
            die("cannot use argument '%s'", argv[i]);
    }
    if (!options.brokers || !options.topic || options.messages == 0)
        die("brokers=, topic= and messages= are needed");
    return options;
}

Course course_over_all(void) { return (Course){.start_ns = INT64_MAX, .first_ns = INT64_MAX}; }

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

void course_add(Course *all, const Course *one)
{
    all->start_ns = earlier(all->start_ns, one->start_ns);
    all->first_ns = earlier(all->first_ns, one->first_ns);
    all->half_ns = later(all->half_ns, one->half_ns);
    all->end_ns = later(all->end_ns, one->end_ns);
}

void print_report(int64_t messages, int64_t bytes, const Course *course, const Histogram *latency,
                  const Histogram *lateness)
{
    printf("{\"messages\": %lld, \"bytes\": %lld, \"start_ns\": %lld, \"first_ns\": %lld, \"half_ns\": %lld, \"end_ns\": %lld",
           (long long)messages, (long long)bytes, (long long)course->start_ns, (long long)course->first_ns,
           (long long)course->half_ns, (long long)course->end_ns);
    histogram_print("latency_us", latency);
    histogram_print("lateness_us", lateness);
    puts("}");
    fflush(stdout);
}

static const char *allocator(void)
{
    static char told[64];
    const char *version = NULL;
    size_t size = sizeof version;
    if (mallctl == NULL || mallctl("version", &version, &size, NULL, 0) != 0)
        return "libc";
    snprintf(told, sizeof told, "jemalloc %.*s", (int)strcspn(version, "-"), version);
    return told;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const Options *);
    } loads[] = {
        {"produce", run_produce},
        {"consume", run_consume},
        {"end-to-end", run_end_to_end},
        {"bare-produce", run_bare_produce},
        {"bare-consume", run_bare_consume},
    };

    if (argc == 2 && strcmp(argv[1], "version") == 0)
        return puts(rd_kafka_version_str()) < 0;
    if (argc == 2 && strcmp(argv[1], "allocator") == 0)
        return printf("%s\n", allocator()) < 0;
    for (size_t i = 0; argc > 1 && i < sizeof loads / sizeof loads[0]; i++)
        if (strcmp(argv[1], loads[i].name) == 0) {
            Options options = parse_options(argc - 2, argv + 2);
            set_deadline(options.deadline_s);
            return loads[i].run(&options);
        }
    die("usage: load version | allocator | produce|consume|end-to-end|bare-produce|bare-consume brokers=HOST:PORT topic=NAME "
        "messages=N [name=value ...]");
}

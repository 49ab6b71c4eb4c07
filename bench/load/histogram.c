/* A fixed-size histogram: adding costs a shift and an increment, so that measuring does not slow the measured. */
#include "load.h"

#include <stdio.h>

static int bucket_of(uint64_t us)
{
    int shift = 0;
    while (us >= 2 * HISTOGRAM_STEPS) {
        us >>= 1;
        shift++;
    }
    int bucket = shift * HISTOGRAM_STEPS + (int)us;
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* The upper edge, so that a percentile is never flattered. */
static uint64_t upper_us(int bucket)
{
    if (bucket < 2 * HISTOGRAM_STEPS)
        return (uint64_t)bucket;
    int shift = bucket / HISTOGRAM_STEPS - 1;
    uint64_t step = (uint64_t)(bucket - shift * HISTOGRAM_STEPS);
    return ((step + 1) << shift) - 1;
}

void histogram_add(Histogram *histogram, int64_t us)
{
    uint64_t value = us > 0 ? (uint64_t)us : 0;
    histogram->counts[bucket_of(value)]++;
    histogram->count++;
    if (value > histogram->max_us)
        histogram->max_us = value;
}

void histogram_merge(Histogram *into, const Histogram *from)
{
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->counts[i] += from->counts[i];
    into->count += from->count;
    if (from->max_us > into->max_us)
        into->max_us = from->max_us;
}

static uint64_t percentile_us(const Histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)histogram->count);
    uint64_t seen = 0;
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->counts[i];
        if (seen > wanted)
            return upper_us(i) < histogram->max_us ? upper_us(i) : histogram->max_us;
    }
    return histogram->max_us;
}

void histogram_print(const char *name, const Histogram *histogram)
{
    if (!histogram || histogram->count == 0) {
        printf(", \"%s\": null", name);
        return;
    }
    printf(", \"%s\": {\"count\": %llu, \"p50\": %llu, \"p99\": %llu, \"p999\": %llu, \"max\": %llu}", name,
           (unsigned long long)histogram->count, (unsigned long long)percentile_us(histogram, 0.5),
           (unsigned long long)percentile_us(histogram, 0.99), (unsigned long long)percentile_us(histogram, 0.999),
           (unsigned long long)histogram->max_us);
}

/* The compiled kernel: what columnar/vectorised does, one record at a time. columnar/compiled.py is its only caller,
 * and columnar/kernel.py says what the functions promise.
 *
 * No Python object is made or touched per record: arguments are buffers that the caller has allocated, and the GIL is
 * free while they are worked on. What is read as records is not trusted: every size is compared with what is left of
 * its record. The limited API of Python 3.11 is used and no other, so that one file serves every later version.
 */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Every function takes buffers, those to read before those to fill; None is one without an address. */
typedef struct {
    void *at;
    int64_t bytes;
} View;

typedef int64_t (*Work)(const View *views);

enum { VIEWS_MAX = 24, HEADER_BYTES = 61, LOG_APPEND_TIME = 0x08, PREFETCH_RECORDS = 6 };
/* What a function may return beside its result: records that break the format, and arguments that do not agree. */
enum { MALFORMED = -1, MISUSED = -2 };

static PyObject *run(PyObject *args, int inputs, int outputs, Work work)
{
    Py_buffer buffers[VIEWS_MAX];
    View views[VIEWS_MAX] = {{0}};
    int count = inputs + outputs, taken = 0;
    int64_t result = MISUSED;
    if (PyTuple_Size(args) != count)
        return PyErr_Format(PyExc_TypeError, "%d buffers are wanted", count);
    for (; taken < count; taken++) {
        PyObject *object = PyTuple_GetItem(args, taken);
        memset(&buffers[taken], 0, sizeof buffers[taken]); /* Releasing it then does nothing. */
        if (object == Py_None)
            continue;
        if (PyObject_GetBuffer(object, &buffers[taken], taken < inputs ? PyBUF_SIMPLE : PyBUF_WRITABLE) < 0)
            goto done;
        views[taken].at = buffers[taken].buf ? buffers[taken].buf : buffers; /* An empty one may have no address. */
        views[taken].bytes = buffers[taken].len;
    }
    Py_BEGIN_ALLOW_THREADS
    result = work(views);
    Py_END_ALLOW_THREADS
    if (result == MISUSED)
        PyErr_SetString(PyExc_ValueError, "buffers that do not agree with one another");
done:
    while (taken > 0)
        PyBuffer_Release(&buffers[--taken]);
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(result);
}

/* Reading. */

typedef struct {
    int64_t start, end, record_count, base_offset, base_timestamp, max_timestamp, attributes;
} Batch;

static int read_long_varint(const uint8_t **at, const uint8_t *end, int bits, uint64_t *value)
{
    const uint8_t *here = *at;
    *value = 0;
    for (int shift = 0; shift < bits && here < end; shift += 7) {
        uint8_t byte = *here++;
        if (shift + 7 > bits && (byte & 0x7F) >> (bits - shift))
            return 0; /* More than the type holds. */
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *at = here;
            return 1;
        }
    }
    return 0;
}

/* A signed varint of at most so many bits, wholly before the end; 0 where there is none. */
static inline int read_varint(const uint8_t **at, const uint8_t *end, int bits, int64_t *value)
{
    const uint8_t *here = *at;
    uint64_t zigzag;
    if (here < end && here[0] < 0x80) {
        zigzag = here[0];
        *at += 1;
    } else if (end - here >= 2 && here[1] < 0x80) {
        zigzag = (here[0] & 0x7F) | (uint64_t)here[1] << 7;
        *at += 2;
    } else if (!read_long_varint(at, end, bits, &zigzag)) {
        return 0;
    }
    *value = (int64_t)(zigzag >> 1) ^ -(int64_t)(zigzag & 1);
    return 1;
}

/* Where a byte string starts, its size, -1 for any negative one, and the way past it; 0 where it is cut off. */
static inline int skip_string(const uint8_t **at, const uint8_t *end, const uint8_t **start, int64_t *size)
{
    if (!read_varint(at, end, 32, size) || *size > end - *at)
        return 0;
    *start = *at;
    if (*size < 0)
        *size = -1;
    else
        *at += *size;
    return 1;
}

/* data, batches; offsets, timestamps, starts and sizes of keys, of values, header counts. All headers are counted. */
static int64_t locate_records(const View *views)
{
    const uint8_t *data = views[0].at;
    const Batch *batch = views[1].at, *batches_end = batch + views[1].bytes / (int64_t)sizeof *batch;
    int64_t *offsets = views[2].at, *timestamps = views[3].at;
    int32_t *key_starts = views[4].at, *key_sizes = views[5].at, *value_starts = views[6].at;
    int32_t *value_sizes = views[7].at, *header_counts = views[8].at;
    int64_t rows = views[2].bytes / 8, row = 0, header_total = 0;
    for (int index = 3; index < 9; index++)
        if (views[index].bytes < rows * (index < 4 ? 8 : 4))
            return MISUSED;
    for (; batch < batches_end; batch++) {
        if (batch->start < 0 || batch->end < batch->start || batch->end > views[0].bytes || views[0].bytes > INT32_MAX
            || batch->record_count < 0 || batch->record_count > rows - row)
            return MISUSED;
        const uint8_t *at = data + batch->start, *batch_end = data + batch->end;
        int append_time = (batch->attributes & LOG_APPEND_TIME) != 0;
        for (int64_t row_end = row + batch->record_count; row < row_end; row++) {
            int64_t size, timestamp_delta, offset_delta, key_size, value_size, header_count;
            const uint8_t *key, *value, *skipped;
            if (!read_varint(&at, batch_end, 32, &size) || size < 1 || size > batch_end - at)
                return MALFORMED;
            const uint8_t *end = at + size;
            __builtin_prefetch(at + PREFETCH_RECORDS * size); /* Where a later one is, if they are about as large. */
            at++; /* Attributes, unused. */
            if (!read_varint(&at, end, 64, &timestamp_delta) || !read_varint(&at, end, 32, &offset_delta)
                || !skip_string(&at, end, &key, &key_size) || !skip_string(&at, end, &value, &value_size)
                || !read_varint(&at, end, 32, &header_count) || header_count < 0)
                return MALFORMED;
            for (int64_t header = 0; header < header_count; header++)
                if (!skip_string(&at, end, &skipped, &size) || size < 0 || !skip_string(&at, end, &skipped, &size))
                    return MALFORMED;
            if (at != end || __builtin_add_overflow(batch->base_offset, offset_delta, &offsets[row])
                || __builtin_add_overflow(append_time ? batch->max_timestamp : batch->base_timestamp,
                                          append_time ? 0 : timestamp_delta, &timestamps[row]))
                return MALFORMED;
            key_starts[row] = (int32_t)(key - data);
            key_sizes[row] = (int32_t)key_size;
            value_starts[row] = (int32_t)(value - data);
            value_sizes[row] = (int32_t)value_size;
            header_counts[row] = (int32_t)header_count;
            header_total += header_count;
        }
        if (at != batch_end)
            return MALFORMED;
    }
    return row == rows ? header_total : MISUSED;
}

/* data, starts and sizes of values, header counts, as located; starts and sizes of header names, of their values. */
static int64_t locate_headers_of_records(const View *views)
{
    const uint8_t *data = views[0].at, *end = data + views[0].bytes;
    const int32_t *starts = views[1].at, *sizes = views[2].at, *counts = views[3].at;
    int64_t rows = views[1].bytes / 4, total = views[4].bytes / 4, slot = 0;
    for (int index = 2; index < 8; index++)
        if (views[index].bytes < 4 * (index < 4 ? rows : total))
            return MISUSED;
    for (int64_t row = 0; row < rows; row++) {
        int64_t position = (int64_t)starts[row] + (sizes[row] > 0 ? sizes[row] : 0), count;
        if (position < 0 || position > views[0].bytes)
            return MISUSED;
        const uint8_t *at = data + position, *start;
        if (!read_varint(&at, end, 32, &count) || count != counts[row] || count > total - slot)
            return MISUSED;
        for (; count > 0; count--, slot++) {
            for (int part = 4; part < 8; part += 2) {
                int64_t size;
                if (!skip_string(&at, end, &start, &size))
                    return MISUSED;
                ((int32_t *)views[part].at)[slot] = (int32_t)(start - data);
                ((int32_t *)views[part + 1].at)[slot] = (int32_t)size;
            }
        }
    }
    return slot;
}

/* data, starts, sizes; offsets, bytes. How many bytes were copied. */
static int64_t gather_strings(const View *views)
{
    const uint8_t *data = views[0].at;
    const int32_t *starts = views[1].at, *sizes = views[2].at;
    int32_t *offsets = views[3].at;
    uint8_t *out = views[4].at;
    int64_t count = views[1].bytes / 4, used = 0;
    if (views[2].bytes < 4 * count || views[3].bytes < 4 * (count + 1) || views[4].bytes > INT32_MAX)
        return MISUSED;
    for (int64_t index = 0; index < count; index++) {
        int64_t start = starts[index], size = sizes[index];
        offsets[index] = (int32_t)used;
        if (size <= 0)
            continue;
        if (start < 0 || size > views[0].bytes - start || size > views[4].bytes - used)
            return MISUSED;
        memcpy(out + used, data + start, (size_t)size);
        used += size;
    }
    offsets[count] = (int32_t)used;
    return used;
}

/* Writing. */

typedef struct {
    const int64_t *offsets; /* NULL where all rows are null. */
    const uint8_t *data, *valid; /* NULL where all are valid. */
    int64_t rows, bytes;
} Column;

/* keys, values, header names, header values, of three views each; where each row's headers begin, and their number. */
typedef struct {
    Column columns[4];
    const int64_t *header_firsts, *header_counts; /* NULL where no row has any. */
    int64_t rows;
} Columns;

enum { COLUMN_VIEWS = 3, COLUMNS_VIEWS = 14, KEYS = 0, VALUES = 1, HEADER_NAMES = 2, HEADER_VALUES = 3 };

static int open_column(const View *views, Column *column)
{
    *column = (Column){views[0].at, views[1].at, views[2].at, views[0].bytes / 8 - 1, views[1].bytes};
    return !column->offsets || (column->rows >= 0 && (!column->valid || views[2].bytes >= column->rows));
}

static int open_columns(const View *views, Columns *columns)
{
    for (int index = 0; index < 4; index++)
        if (!open_column(views + COLUMN_VIEWS * index, &columns->columns[index]))
            return 0;
    columns->header_firsts = views[12].at;
    columns->header_counts = views[13].at;
    columns->rows = views[12].bytes / 8;
    return views[13].bytes >= views[12].bytes;
}

/* The bytes of a row and their number, -1 for a null; 0 where the column does not have them. */
static inline int cell(const Column *column, int64_t row, const uint8_t **bytes, int64_t *size)
{
    *size = -1;
    if (!column->offsets)
        return 1;
    if (row < 0 || row >= column->rows)
        return 0;
    if (column->valid && !column->valid[row])
        return 1;
    int64_t start = column->offsets[row], end = column->offsets[row + 1];
    if (start < 0 || end < start || end > column->bytes)
        return 0;
    *bytes = column->data + start;
    *size = end - start;
    return 1;
}

static inline uint64_t zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int varint_bytes(int64_t value)
{
    int bytes = 1;
    for (uint64_t rest = zigzag(value) >> 7; rest; rest >>= 7)
        bytes++;
    return bytes;
}

static inline uint8_t *put_varint(uint8_t *at, int64_t value)
{
    uint64_t rest = zigzag(value);
    for (; rest >= 0x80; rest >>= 7)
        *at++ = (uint8_t)(rest | 0x80);
    *at++ = (uint8_t)rest;
    return at;
}

/* Add what a byte string takes; 0 where there is none. */
static inline int measure_cell(const Column *column, int64_t row, int64_t *total)
{
    const uint8_t *bytes;
    int64_t size;
    if (!cell(column, row, &bytes, &size))
        return 0;
    *total += size < 0 ? 1 : varint_bytes(size) + size;
    return 1;
}

/* A byte string behind its size, and where it ends; NULL where there is none, or no room for it. */
static inline uint8_t *put_cell(uint8_t *at, const uint8_t *end, const Column *column, int64_t row)
{
    const uint8_t *bytes = NULL;
    int64_t size;
    if (!at || !cell(column, row, &bytes, &size) || size > end - at - 10)
        return NULL;
    at = put_varint(at, size);
    if (size <= 0)
        return at;
    memcpy(at, bytes, (size_t)size);
    return at + size;
}

/* The columns, rows; sizes. */
static int64_t measure_records(const View *views)
{
    Columns columns;
    const Column *column = columns.columns;
    const int64_t *rows = views[COLUMNS_VIEWS].at;
    int64_t *sizes = views[COLUMNS_VIEWS + 1].at, count = views[COLUMNS_VIEWS].bytes / 8;
    if (!open_columns(views, &columns) || views[COLUMNS_VIEWS + 1].bytes < 8 * count)
        return MISUSED;
    for (int64_t index = 0; index < count; index++) {
        int64_t row = rows[index], total = 1; /* Attributes. */
        if (!measure_cell(&column[KEYS], row, &total) || !measure_cell(&column[VALUES], row, &total))
            return MISUSED;
        if (!columns.header_firsts) {
            sizes[index] = total + 1;
            continue;
        }
        if (row < 0 || row >= columns.rows)
            return MISUSED;
        int64_t header = columns.header_firsts[row], header_count = columns.header_counts[row];
        total += varint_bytes(header_count);
        for (; header_count > 0; header_count--, header++)
            if (!measure_cell(&column[HEADER_NAMES], header, &total)
                || !measure_cell(&column[HEADER_VALUES], header, &total))
                return MISUSED;
        sizes[index] = total;
    }
    return count;
}

/* The columns, timestamps, rows, what was measured of them, first rows of batches; bytes, edges of batches. */
static int64_t write_records(const View *views)
{
    enum { FRONT_BYTES_MAX = 5 + 1 + 10 + 5 };
    Columns columns;
    const Column *column = columns.columns;
    const View *rest = views + COLUMNS_VIEWS;
    const int64_t *timestamps = rest[0].at, *rows = rest[1].at, *contents = rest[2].at, *firsts = rest[3].at;
    uint8_t *data = rest[4].at, *at = data, *end = data + rest[4].bytes;
    int64_t *edges = rest[5].at;
    int64_t timestamp_count = rest[0].bytes / 8, row_count = rest[1].bytes / 8, batch_count = rest[3].bytes / 8;
    if (!open_columns(views, &columns) || rest[2].bytes < 8 * row_count || rest[5].bytes < 8 * (batch_count + 1))
        return MISUSED;
    for (int64_t batch = 0; batch < batch_count; batch++) {
        int64_t first = firsts[batch], last = batch + 1 < batch_count ? firsts[batch + 1] : row_count;
        int64_t base_timestamp = 0;
        edges[batch] = at - data;
        if (first < 0 || last > row_count || end - at < HEADER_BYTES)
            return MISUSED;
        at += HEADER_BYTES;
        for (int64_t index = first; index < last; index++) {
            int64_t row = rows[index];
            if (row < 0 || row >= timestamp_count || end - at < FRONT_BYTES_MAX)
                return MISUSED;
            if (index == first)
                base_timestamp = timestamps[row];
            int64_t timestamp_delta = (int64_t)((uint64_t)timestamps[row] - (uint64_t)base_timestamp);
            int64_t size = contents[index] + varint_bytes(timestamp_delta) + varint_bytes(index - first);
            at = put_varint(at, size);
            const uint8_t *begin = at;
            *at++ = 0; /* Attributes, unused. */
            at = put_varint(put_varint(at, timestamp_delta), index - first);
            at = put_cell(at, end, &column[KEYS], row);
            at = put_cell(at, end, &column[VALUES], row);
            if (!at || end - at < 10 || (columns.header_firsts && row >= columns.rows))
                return MISUSED;
            int64_t header = columns.header_firsts ? columns.header_firsts[row] : 0;
            int64_t header_count = columns.header_firsts ? columns.header_counts[row] : 0;
            at = put_varint(at, header_count);
            for (; header_count > 0; header_count--, header++) {
                at = put_cell(at, end, &column[HEADER_NAMES], header);
                at = put_cell(at, end, &column[HEADER_VALUES], header);
            }
            if (!at || at - begin != size)
                return MISUSED;
        }
    }
    edges[batch_count] = at - data;
    return batch_count;
}

/* Hashing. */

static uint32_t murmur2_of(const uint8_t *data, int64_t size)
{
    const uint32_t factor = 0x5BD1E995;
    uint32_t hash = 0x9747B28C ^ (uint32_t)size;
    for (; size >= 4; data += 4, size -= 4) {
        uint32_t word = data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        word *= factor;
        word ^= word >> 24;
        hash = hash * factor ^ word * factor;
    }
    for (int64_t index = 0; index < size; index++)
        hash ^= (uint32_t)data[index] << 8 * index;
    if (size > 0)
        hash *= factor;
    hash = (hash ^ hash >> 13) * factor;
    return hash ^ hash >> 15;
}

/* A column; hashes. */
static int64_t hash_keys(const View *views)
{
    Column keys;
    uint32_t *hashes = views[COLUMN_VIEWS].at;
    if (!open_column(views, &keys) || !keys.offsets || views[COLUMN_VIEWS].bytes < 4 * keys.rows)
        return MISUSED;
    for (int64_t row = 0; row < keys.rows; row++) {
        const uint8_t *bytes = NULL;
        int64_t size;
        if (!cell(&keys, row, &bytes, &size))
            return MISUSED;
        hashes[row] = murmur2_of(bytes, size < 0 ? 0 : size);
    }
    return keys.rows;
}

#define PYTHON_FUNCTION(name, inputs, outputs, work)                                                                   \
    static PyObject *name(PyObject *module, PyObject *args)                                                            \
    {                                                                                                                  \
        (void)module;                                                                                                  \
        return run(args, inputs, outputs, work);                                                                       \
    }

PYTHON_FUNCTION(locate, 2, 7, locate_records)
PYTHON_FUNCTION(locate_headers, 4, 4, locate_headers_of_records)
PYTHON_FUNCTION(gather, 3, 2, gather_strings)
PYTHON_FUNCTION(measure, COLUMNS_VIEWS + 1, 1, measure_records)
PYTHON_FUNCTION(write_all, COLUMNS_VIEWS + 4, 2, write_records)
PYTHON_FUNCTION(murmur2, COLUMN_VIEWS, 1, hash_keys)

static PyMethodDef methods[] = {
    {"locate", locate, METH_VARARGS, NULL},
    {"locate_headers", locate_headers, METH_VARARGS, NULL},
    {"gather", gather, METH_VARARGS, NULL},
    {"measure", measure, METH_VARARGS, NULL},
    {"write", write_all, METH_VARARGS, NULL},
    {"murmur2", murmur2, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_kernel",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kernel(void)
{
    return PyModuleDef_Init(&definition);
}

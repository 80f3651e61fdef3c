/* One direction of one recurrent layer over all steps, and its derivative, on arrays.
 *
 * Contract: `states` and `slopes` give what the rows `recurrent_states` and `recurrent_slopes` of
 * `ops.rows.networks.recurrent` say, for float32 and float64; NotImplemented for anything else, where
 * this CPU has no products of ours (core/arrays/multiply.h), and without memory. Compiled functions
 * call them between their kernels: their results have the bits of eager execution.
 *
 * A step is one product of the hidden state with the weight, whose columns are packed once for all
 * steps, and one pass over its rows (loops/recurrent_loops.h). Sequences do not depend on each other,
 * so each thread takes some of them through all steps, and nobody waits before the end; results do
 * not depend on the number of threads. The derivative reads the gates beside the states, where they were
 * kept; else it computes the products of all steps again, before it walks back, where it will put the
 * slopes.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "multiply.h"
#include "recurrent_cells.h"

enum {
    SERIAL_WORK = 1 << 22, /* multiplications up to which one thread is used, as for products */
    LEAST_ROWS = 4,        /* sequences that a thread takes at least: a product reads all weights */
    ALIGNMENT = 64,
    WHOLE = 16,            /* elements to which multiply counts up packed columns, at most */
    MOST_OPERANDS = 7,
};

/* `run_together` of core/arrays/helper_threads.h. */
typedef void (*Together)(void (*unit)(void *, int64_t), void *context, int64_t units, int threads);

static Together together;
static const Multiply *products;
static const Cells *cells[2]; /* by dtype: float32, float64; NULL where products are */

/* A call. Sizes: P features of the hidden state, H of the cell, G of all gates; a row for each step and
 * sequence. Pointers that a mode has no use for are NULL. */
typedef struct {
    enum Mode mode;
    int is_reversed, is_packed, keeps; /* keeps: gates beside the states */
    int64_t size; /* bytes of an element */
    int64_t steps, batch, hidden, cell, gates_width, rows;
    int64_t *starts; /* row at which each step starts, and the number of rows */
    const char *gates, *weight, *initial, *initial_cell, *bias, *projection;
    const char *g, *states; /* of the derivative: given */
    char *result;
    int64_t result_row, states_row; /* states_row: of the states alone */
    int64_t states_width;           /* of the derivative: with what is kept beside them */
    const Cells *cells;
    Multiply multiply;
    int64_t bands;          /* sequences are cut into */
    char *scratch;
    int64_t band_bytes;     /* of it */
    atomic_int failed;      /* a thread had no memory */
} Layer;

/* ------------------------------------------------------------------------- Parts of a call --- */

/* A matrix whose packed columns stay in a thread's scratch, if there is room: home >= 0. */
typedef struct {
    const char *matrix;
    int64_t row, column, k, m, home;
    int is_packed;
} Right;

/* c (rows, m) = a (rows, k) @ right, or added to what c holds. Row lengths in elements. */
static void multiply_by(Layer *layer, Right *right, const char *a, int64_t a_row, char *c,
                        int64_t c_row, int64_t rows, int how) {
    if (rows == 0) return;
    how |= right->is_packed ? IS_PACKED : 0;
    if (!layer->multiply(a, a_row, 1, right->matrix, right->row, right->column, c, c_row, rows,
                         right->k, right->m, right->home, how))
        atomic_store(&layer->failed, 1);
    right->is_packed = right->home >= 0;
}

static int64_t room_of(const Right *right) { return right->k * parts(right->m, WHOLE) * WHOLE; }

/* Gives both a home, or none: products without one use all of the scratch. `second` may be NULL. */
static void settle(const Layer *layer, Right *first, Right *second) {
    const int64_t room = room_of(first), both = room + (second ? room_of(second) : 0);
    const int has_room = both * layer->size <= KEPT_BYTES;
    first->home = has_room ? 0 : -1;
    if (second) second->home = has_room ? room : -1;
}

static Right weight_of(const Layer *layer, int is_transposed) {
    const int64_t p = layer->hidden, g = layer->gates_width;
    if (is_transposed) return (Right){layer->weight, 1, p, p, g, -1, 0};
    return (Right){layer->weight, p, 1, g, p, -1, 0};
}

static Right projection_of(const Layer *layer, int is_transposed) {
    const int64_t p = layer->hidden, h = layer->cell;
    if (is_transposed) return (Right){layer->projection, 1, h, h, p, -1, 0};
    return (Right){layer->projection, h, 1, p, h, -1, 0};
}

/* The sequences of a band that step t has, from `top` on. */
static int64_t rows_at(const Layer *layer, int64_t t, int64_t top, int64_t bottom) {
    const int64_t rows = least(layer->starts[t + 1] - layer->starts[t], bottom) - top;
    return rows > 0 ? rows : 0;
}

/* The step whose state step t has begun with, or -1: the initial state. */
static int64_t step_before(const Layer *layer, int64_t t) {
    if (!layer->is_reversed) return t - 1;
    return t + 1 < layer->steps ? t + 1 : -1;
}

/* Columns beside the states: four of each cell, see recurrent_cells.h. */
static int64_t kept_width(const Layer *layer) { return layer->keeps ? 4 * layer->cell : 0; }

static const char *row_of(const Layer *layer, const char *x, int64_t row, int64_t width) {
    return x + row * width * layer->size;
}

/* Where a row's gates are kept beside its states; NULL: they are not. */
static char *kept_at(const Layer *layer, char *states, int64_t row) {
    const int64_t width = layer->states_row + kept_width(layer);
    return layer->keeps ? states + (row * width + layer->states_row) * layer->size : NULL;
}

static char *take(char **memory, const Layer *layer, int64_t elements) {
    char *taken = *memory;
    *memory += parts(elements * layer->size, ALIGNMENT) * ALIGNMENT;
    return taken;
}

/* What `take` gives to a band of so many sequences, in either direction. */
static int64_t bytes_of_band(const Layer *layer, int64_t rows) {
    const int64_t widest = 2 * layer->hidden + 2 * layer->cell + layer->gates_width;
    return rows * widest * layer->size + 8 * ALIGNMENT;
}

/* Rows of `from` beside each other, to rows of the result from `column` on. */
static void put(const Layer *layer, int64_t first, int64_t column, const char *from, int64_t width,
                int64_t rows) {
    const int64_t bytes = width * layer->size;
    for (int64_t row = 0; row < rows; row++)
        memcpy(layer->result + ((first + row) * layer->result_row + column) * layer->size,
               from + row * bytes, (size_t)bytes);
}

/* ------------------------------------------------------------------------------- Forward ----- */

static void forward_band(void *context, int64_t band) {
    Layer *layer = context;
    const int64_t top = part(layer->batch, layer->bands, band);
    const int64_t bottom = part(layer->batch, layer->bands, band + 1), count = bottom - top;
    const int64_t p = layer->hidden, h = layer->cell, g = layer->gates_width, size = layer->size;
    char *memory = layer->scratch + band * layer->band_bytes;
    char *hidden = take(&memory, layer, count * p), *cell = take(&memory, layer, count * h);
    char *product = take(&memory, layer, count * g);
    char *raw = layer->projection ? take(&memory, layer, count * h) : hidden;
    Right weight = weight_of(layer, 1), projection = projection_of(layer, 1);
    settle(layer, &weight, layer->projection ? &projection : NULL);
    memcpy(hidden, row_of(layer, layer->initial, top, p), (size_t)(count * p * size));
    if (layer->mode == LSTM)
        memcpy(cell, row_of(layer, layer->initial_cell, top, h), (size_t)(count * h * size));
    for (int64_t i = 0; i < layer->steps; i++) {
        const int64_t t = layer->is_reversed ? layer->steps - 1 - i : i;
        const int64_t first = layer->starts[t] + top, rows = rows_at(layer, t, top, bottom);
        multiply_by(layer, &weight, hidden, p, product, g, rows, 0);
        const Step step = {.rows = rows, .size = h, .gates = row_of(layer, layer->gates, first, g),
                           .product = product, .bias = layer->bias, .cell = cell, .hidden = raw,
                           .kept = kept_at(layer, layer->result, first),
                           .kept_row = layer->result_row};
        layer->cells->forward[layer->mode][layer->keeps](&step);
        if (layer->projection) multiply_by(layer, &projection, raw, h, hidden, p, rows, 0);
        put(layer, first, 0, hidden, p, rows);
        if (layer->mode == LSTM) put(layer, first, p, cell, h, rows);
    }
}

/* ------------------------------------------------------------------------------ Backward ----- */

/* The products of the hidden state at some steps, in the rows of the result. */
static void multiply_steps(void *context, int64_t unit) {
    Layer *layer = context;
    const int64_t last = part(layer->steps, layer->bands, unit + 1), p = layer->hidden;
    Right weight = weight_of(layer, 1);
    settle(layer, &weight, NULL);
    for (int64_t t = part(layer->steps, layer->bands, unit), next; t < last; t = next) {
        const int64_t before = step_before(layer, t), rows = rows_at(layer, t, 0, layer->batch);
        int64_t carried = before < 0 ? 0 : least(rows, rows_at(layer, before, 0, layer->batch));
        char *to = layer->result + layer->starts[t] * layer->result_row * layer->size;
        next = t + 1;
        if (!layer->is_packed && carried) { /* so far as states lie as the products shall */
            while (next < last && step_before(layer, next) >= 0) next++;
            carried *= next - t;
        }
        if (carried)
            multiply_by(layer, &weight,
                        row_of(layer, layer->states, layer->starts[before], layer->states_row),
                        layer->states_row, to, layer->result_row, carried, 0);
        else
            multiply_by(layer, &weight, layer->initial, p, to, layer->result_row, rows, 0);
        if (carried && carried < rows)
            multiply_by(layer, &weight, row_of(layer, layer->initial, carried, p), p,
                        to + carried * layer->result_row * layer->size, layer->result_row,
                        rows - carried, 0);
    }
}

/* Slopes of `rows` sequences of step t, from sequence `top` on; `before` is the state they had. */
static void back_step(const Layer *layer, int64_t t, int64_t top, int64_t rows, const char *before,
                      int64_t before_row, BackStep step) {
    const int64_t first = layer->starts[t] + top, p = layer->hidden;
    if (rows <= 0) return;
    step.rows = rows;
    if (!layer->keeps) step.gates = row_of(layer, layer->gates, first, layer->gates_width);
    step.slopes = layer->result + first * layer->result_row * layer->size;
    step.after = row_of(layer, layer->states, first, layer->states_width) +
                 (layer->mode == LSTM ? p * layer->size : 0);
    step.kept = kept_at(layer, (char *)layer->states, first);
    step.before = before, step.before_row = before_row;
    layer->cells->backward[layer->mode][layer->keeps](&step);
}

/* The same for all rows of a band: some have the initial state before them. */
static void back_steps(const Layer *layer, int64_t t, int64_t top, int64_t rows, BackStep step) {
    const int64_t before = step_before(layer, t), h = layer->cell;
    const int64_t carried = before < 0 ? 0 : rows_at(layer, before, top, top + rows);
    const char *initial = layer->mode == LSTM ? layer->initial_cell : layer->initial;
    if (before >= 0) {
        const char *state =
            row_of(layer, layer->states, layer->starts[before] + top, layer->states_width);
        if (layer->mode == LSTM) state += layer->hidden * layer->size;
        back_step(layer, t, top, carried, state, layer->states_width, step);
    }
    step.hidden = (char *)step.hidden + carried * h * layer->size;
    step.cell = (char *)step.cell + carried * h * layer->size;
    step.sent = (char *)step.sent + carried * layer->gates_width * layer->size;
    back_step(layer, t, top + carried, rows - carried,
              row_of(layer, initial, top + carried, h), h, step);
}

static void backward_band(void *context, int64_t band) {
    Layer *layer = context;
    const int64_t top = part(layer->batch, layer->bands, band);
    const int64_t bottom = part(layer->batch, layer->bands, band + 1), count = bottom - top;
    const int64_t p = layer->hidden, h = layer->cell, g = layer->gates_width, size = layer->size;
    const int is_lstm = layer->mode == LSTM, is_gru = layer->mode == GRU;
    char *memory = layer->scratch + band * layer->band_bytes;
    char *hidden = take(&memory, layer, count * p), *cell = take(&memory, layer, count * h);
    char *sent = take(&memory, layer, count * g);
    char *raw = layer->projection ? take(&memory, layer, count * h) : hidden;
    Right weight = weight_of(layer, 0), projection = projection_of(layer, 0);
    settle(layer, &weight, layer->projection ? &projection : NULL);
    memset(hidden, 0, (size_t)(count * p * size));
    memset(cell, 0, (size_t)(count * h * size));
    for (int64_t i = layer->steps - 1; i >= 0; i--) {
        const int64_t t = layer->is_reversed ? layer->steps - 1 - i : i;
        const int64_t first = layer->starts[t] + top, rows = rows_at(layer, t, top, bottom);
        const char *given = row_of(layer, layer->g, first, layer->states_row);
        const char *slopes = row_of(layer, layer->result, first, layer->result_row);
        if (rows == 0) continue;
        layer->cells->add(hidden, given, layer->states_row, rows, p);
        if (is_lstm) layer->cells->add(cell, given + p * size, layer->states_row, rows, h);
        if (layer->projection) {
            multiply_by(layer, &projection, hidden, p, raw, h, rows, 0);
            put(layer, first, g, hidden, p, rows);
        }
        const BackStep step = {.size = h, .bias = layer->bias, .slopes_row = layer->result_row,
                               .after_row = layer->states_width, .kept_row = layer->states_width,
                               .hidden = raw, .cell = cell, .sent = sent};
        back_steps(layer, t, top, rows, step);
        multiply_by(layer, &weight, is_gru ? sent : slopes, is_gru ? g : layer->result_row, hidden,
                    p, rows, is_gru ? ADDS : 0);
    }
    put(layer, layer->rows + top, 0, hidden, p, count);
    if (is_lstm) put(layer, layer->rows + top, p, cell, h, count);
    const int64_t used = p + (is_lstm ? h : 0), rest = layer->result_row - used;
    for (int64_t row = layer->rows + top; rest && row < layer->rows + bottom; row++)
        memset(layer->result + (row * layer->result_row + used) * size, 0, (size_t)(rest * size));
}

/* ---------------------------------------------------------------------------- The arrays ----- */

static const char *const mode_names[MODES] = {"LSTM", "GRU", "RNN_TANH", "RNN_RELU"};
static const int gate_counts[MODES] = {4, 3, 1, 1};

/* What a call holds while it runs. */
typedef struct {
    PyArrayObject *operands[MOST_OPERANDS];
    Py_ssize_t count;
} Held;

static void release(Held *held, Layer *layer) {
    for (Py_ssize_t i = 0; i < held->count; i++) Py_XDECREF(held->operands[i]);
    free(layer->starts);
    free(layer->scratch);
}

static int has_shape(PyArrayObject *x, int64_t rows, int64_t columns) {
    return PyArray_NDIM(x) == 2 && PyArray_DIM(x, 0) == rows && PyArray_DIM(x, 1) == columns;
}

/* The operands, row-major. 0 for what is not ours, -1 with an exception. */
static int hold(PyObject *given, Held *held) {
    held->count = 0;
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) < 1 ||
        PyTuple_GET_SIZE(given) > MOST_OPERANDS || !PyArray_Check(PyTuple_GET_ITEM(given, 0)))
        return 0;
    const int type = PyArray_TYPE((PyArrayObject *)PyTuple_GET_ITEM(given, 0));
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || !products[type == NPY_DOUBLE]) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); i++) {
        PyArrayObject *x = (PyArrayObject *)PyTuple_GET_ITEM(given, i);
        if (!PyArray_Check((PyObject *)x) || PyArray_TYPE(x) != type || PyArray_SIZE(x) == 0) return 0;
        x = (PyArrayObject *)PyArray_FROM_OTF((PyObject *)x, type, NPY_ARRAY_CARRAY_RO);
        if (!x) return -1;
        held->operands[held->count++] = x;
    }
    return 1;
}

/* Sets the rows of each step; 0 for sizes that do not fall or do not add up, -1 with an exception. */
static int read_steps(Layer *layer, PyArrayObject *gates, PyObject *batch_sizes) {
    layer->is_packed = batch_sizes != Py_None;
    if (PyArray_NDIM(gates) != (layer->is_packed ? 2 : 3)) return 0;
    if (layer->is_packed && !PyTuple_Check(batch_sizes)) return 0;
    layer->steps = layer->is_packed ? PyTuple_GET_SIZE(batch_sizes) : PyArray_DIM(gates, 0);
    layer->starts = malloc((size_t)(layer->steps + 1) * sizeof(int64_t));
    if (!layer->starts) return 0;
    layer->starts[0] = 0;
    int64_t size = layer->is_packed ? INT64_MAX : PyArray_DIM(gates, 1);
    for (int64_t t = 0; t < layer->steps; t++) {
        if (layer->is_packed) {
            const int64_t next = PyLong_AsLongLong(PyTuple_GET_ITEM(batch_sizes, t));
            if (next == -1 && PyErr_Occurred()) return -1;
            if (next < 1 || next > size) return 0;
            size = next;
        }
        layer->starts[t + 1] = layer->starts[t] + size;
    }
    layer->batch = layer->steps ? layer->starts[1] : 0;
    layer->rows = layer->starts[layer->steps];
    return layer->rows == (layer->is_packed ? PyArray_DIM(gates, 0) : layer->steps * size);
}

/* Reads the operands behind the derivative's: gates, weight, hidden, and those of the mode. The states
 * with what is kept stand for the gates of a derivative that reads them. */
static int read_operands(Layer *layer, PyArrayObject **x, Py_ssize_t count, PyObject *batch_sizes,
                         int is_derivative) {
    const int is_lstm = layer->mode == LSTM, is_gru = layer->mode == GRU;
    if (count < (is_lstm || is_gru ? 4 : 3) || count > (is_lstm ? 5 : is_gru ? 4 : 3)) return 0;
    if (layer->keeps && (count != 4 || !(is_lstm || is_gru))) return 0;
    const int found = read_steps(layer, x[0], batch_sizes);
    if (found <= 0 || PyArray_NDIM(x[2]) != 2) return found < 0 ? -1 : 0;
    const int type = PyArray_TYPE(x[0]);
    layer->size = PyArray_ITEMSIZE(x[0]);
    layer->cells = cells[type == NPY_DOUBLE], layer->multiply = products[type == NPY_DOUBLE];
    layer->hidden = PyArray_DIM(x[2], 1);
    layer->cell = is_lstm && PyArray_NDIM(x[3]) == 2 ? PyArray_DIM(x[3], 1) : layer->hidden;
    layer->gates_width = gate_counts[layer->mode] * layer->cell;
    layer->states_row = layer->hidden + (is_lstm ? layer->cell : 0);
    const int64_t width = PyArray_DIM(x[0], PyArray_NDIM(x[0]) - 1);
    const int is_kept = layer->keeps && is_derivative;
    if (width != (is_kept ? layer->states_row + kept_width(layer) : layer->gates_width)) return 0;
    if (!has_shape(x[1], layer->gates_width, layer->hidden)) return 0;
    if (!has_shape(x[2], layer->batch, layer->hidden)) return 0;
    if (is_lstm && !has_shape(x[3], layer->batch, layer->cell)) return 0;
    if (is_gru && (PyArray_NDIM(x[3]) != 1 || PyArray_DIM(x[3], 0) != layer->cell)) return 0;
    if (count == 5 && !has_shape(x[4], layer->hidden, layer->cell)) return 0;
    if (is_lstm && count == 4 && layer->hidden != layer->cell) return 0;
    layer->gates = PyArray_DATA(x[0]), layer->weight = PyArray_DATA(x[1]);
    layer->initial = PyArray_DATA(x[2]);
    if (is_lstm) layer->initial_cell = PyArray_DATA(x[3]);
    if (is_gru) layer->bias = PyArray_DATA(x[3]);
    if (count == 5) layer->projection = PyArray_DATA(x[4]);
    return 1;
}

/* Whether it is an array with the rows of the gates, and so wide. */
static int is_of_states(PyArrayObject *x, PyArrayObject *gates, int64_t width) {
    const int dims = PyArray_NDIM(gates);
    if (PyArray_NDIM(x) != dims || PyArray_DIM(x, dims - 1) != width) return 0;
    return PyArray_CompareLists(PyArray_DIMS(x), PyArray_DIMS(gates), dims - 1);
}

static PyObject *empty_result(Layer *layer, PyArrayObject *gates, int is_derivative) {
    npy_intp shape[3] = {0};
    const int dims = PyArray_NDIM(gates);
    memcpy(shape, PyArray_DIMS(gates), (size_t)dims * sizeof(npy_intp));
    if (is_derivative) shape[0] += layer->is_packed ? layer->batch : 1;
    shape[dims - 1] = layer->result_row;
    PyObject *result = PyArray_EMPTY(dims, shape, PyArray_TYPE(gates), 0);
    if (result) layer->result = PyArray_BYTES((PyArrayObject *)result);
    return result;
}

static void run(Layer *layer, int is_derivative, int threads) {
    const int reads_product = !layer->keeps && (layer->mode == LSTM || layer->mode == GRU);
    if (is_derivative && reads_product) {
        const int64_t bands = layer->bands;
        layer->bands = least(threads, layer->steps);
        together(multiply_steps, layer, layer->bands, threads);
        layer->bands = bands;
    }
    together(is_derivative ? backward_band : forward_band, layer, layer->bands, threads);
}

/* The result, or NotImplemented. */
static PyObject *computed(Layer *layer, PyArrayObject *gates, int is_derivative, int threads) {
    const int64_t extra = layer->mode == GRU || layer->projection ? layer->hidden : 0;
    layer->states_width = layer->states_row + kept_width(layer);
    layer->result_row = is_derivative ? layer->gates_width + extra : layer->states_width;
    if (layer->rows * layer->hidden * layer->gates_width < SERIAL_WORK) threads = 1;
    layer->bands = least(threads, parts(layer->batch, LEAST_ROWS));
    layer->band_bytes = parts(bytes_of_band(layer, parts(layer->batch, layer->bands)), ALIGNMENT) *
                        ALIGNMENT;
    layer->scratch = aligned_alloc(ALIGNMENT, (size_t)(layer->bands * layer->band_bytes));
    if (!layer->scratch) Py_RETURN_NOTIMPLEMENTED;
    PyObject *result = empty_result(layer, gates, is_derivative);
    if (!result) return NULL;
    Py_BEGIN_ALLOW_THREADS
    run(layer, is_derivative, threads);
    Py_END_ALLOW_THREADS
    if (!atomic_load(&layer->failed)) return result;
    Py_DECREF(result);
    Py_RETURN_NOTIMPLEMENTED;
}

/* (operands, mode, batch_sizes, is_reversed, keeps, threads) */
static PyObject *call(PyObject *const *given, Py_ssize_t count, int is_derivative) {
    Layer layer = {0};
    Held held = {0};
    PyObject *result = NULL;
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "recurrent: expected 6 arguments");
        return NULL;
    }
    const char *name = PyUnicode_AsUTF8(given[1]);
    const long threads = name ? PyLong_AsLong(given[5]) : -1;
    layer.is_reversed = PyObject_IsTrue(given[3]), layer.keeps = PyObject_IsTrue(given[4]);
    if (PyErr_Occurred()) return NULL;
    while (layer.mode < MODES && strcmp(name, mode_names[layer.mode])) layer.mode++;
    const int first = !is_derivative ? 0 : layer.keeps ? 1 : 2; /* kept ones: the states are there */
    int found = layer.mode == MODES ? 0 : hold(given[0], &held);
    if (found > 0)
        found = read_operands(&layer, held.operands + first, held.count - first, given[2],
                              is_derivative);
    PyArrayObject *gates = held.operands[first];
    if (is_derivative && found > 0) {
        PyArrayObject *g = held.operands[0], *after = held.operands[1];
        found = is_of_states(g, gates, layer.states_row) &&
                is_of_states(after, gates, layer.states_row + kept_width(&layer));
        layer.g = PyArray_DATA(g), layer.states = PyArray_DATA(after);
    }
    if (found > 0) result = computed(&layer, gates, is_derivative, threads < 1 ? 1 : (int)threads);
    if (found == 0) result = Py_NewRef(Py_NotImplemented);
    release(&held, &layer);
    return result;
}

static PyObject *states(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    return call(given, count, 0);
}

static PyObject *slopes(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    return call(given, count, 1);
}

static PyMethodDef methods[] = {
    {"states", (PyCFunction)(void (*)(void))states, METH_FASTCALL,
     "states(operands, mode, batch_sizes, is_reversed, keeps, threads): the state after each step."},
    {"slopes", (PyCFunction)(void (*)(void))slopes, METH_FASTCALL,
     "slopes(operands, mode, batch_sizes, is_reversed, keeps, threads): the derivative, of the gradient,"
     " the states and their operands, without the gates where they are kept."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dynajit.ops.native._recurrent", .m_size = -1,
    .m_methods = methods,
};

#if defined(__x86_64__) && defined(__GNUC__)
extern const Cells cells_f32_avx2, cells_f64_avx2, cells_f32_avx512, cells_f64_avx512;

/* As in _vecmath.c; a CPU with products has AVX2. */
static void choose_cells(void) {
    __builtin_cpu_init();
    const int is_wide = __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2");
    cells[0] = is_wide ? &cells_f32_avx512 : &cells_f32_avx2;
    cells[1] = is_wide ? &cells_f64_avx512 : &cells_f64_avx2;
}
#else
static void choose_cells(void) {}
#endif

PyMODINIT_FUNC PyInit__recurrent(void) {
    import_array();
    together = (Together)PyCapsule_Import("dynajit.core.arrays._products.run_together", 0);
    products = together ? PyCapsule_Import(MULTIPLY, 0) : NULL;
    if (!products) return NULL;
    choose_cells();
    return PyModule_Create(&definition);
}

/* Turns of a loop, for the units that have the loop, and by a compiled program; included by _runtime.c.
 *
 * Contract: `run_turns` and `run_chunk` are what headers/turns.h says of `dj_runtime`.
 *
 * `Program.turns(numbers, values, carried, limit, test, stacked, collected, backwards)` runs the
 * program until `limit` turns are over (-1: no limit), or result `test` of a turn is false (-1: no
 * test). A turn takes its numbers, what the turn before handed on, its row of each array that is
 * stacked, and what is fixed; its first `carried` results are handed on, and the `collected` after
 * them are kept: a row of an array each. A number is (start, step) or an array with one for each turn.
 * Backwards, turn 0 has the last numbers and rows. The GIL is released. The value is (what was handed
 * on at the end, ..., what was collected, ..., number of turns); None, and nothing was done, where the
 * program is of another kind: sizes that vary, results that are constants, or kernels that are being
 * timed.
 */

#include <time.h>

#include "headers/turns.h"

/* The arguments of a turn. */
static void begin_turn(const dj_turns *all, int64_t turn, int64_t place, int64_t shift,
                             void **inputs, void **outputs, dj_scalar *scalars) {
    for (int k = 0; k < all->numbers; k++) {
        const dj_turn_number *number = &all->number[k];
        if (number->listed) memcpy(&scalars[k], (const char *)number->listed + 8 * place, 8);
        else scalars[k].i = number->start + number->step * place;
    }
    for (int k = 0; k < all->stacked; k++) {
        const char *whole = (const char *)all->operands[all->carried + k];
        inputs[all->carried + k] = (void *)(whole + place * all->rows[k]);
    }
    for (int k = 0; k < all->outputs; k++) {
        const dj_turn_cycle *cycle = &all->cycle[k];
        int64_t count = cycle->count, own = cycle->own >= 0;
        int64_t at = count < 2 ? 0 : count == 2 ? (turn + shift) & 1 : (turn + shift) % count;
        if (cycle->row >= 0) {
            const dj_turn_result *result = &all->result[cycle->row];
            outputs[k] = result->to + place * result->row;
        } else if (at < own) outputs[k] = all->result[cycle->own].to;
        else outputs[k] = all->memory + cycle->place + (at - own) * cycle->step;
    }
}

static void *turn_value(int from, void **inputs, void **outputs) {
    return from < 0 ? inputs[~from] : outputs[from];
}

/* Keep what a turn gives, and hand it on. */
static void end_turn(const dj_turns *all, int64_t place, void **inputs, void **outputs,
                           void **handed) {
    for (int k = all->carried; k < all->carried + all->collected; k++) {
        const dj_turn_result *result = &all->result[k];
        if (!result->to || (result->from >= 0 && all->cycle[result->from].row == k)) continue;
        memcpy(result->to + place * result->row, turn_value(result->from, inputs, outputs),
               (size_t)result->bytes);
    }
    for (int k = 0; k < all->carried; k++)
        handed[k] = turn_value(all->result[k].from, inputs, outputs);
    for (int k = 0; k < all->carried; k++) inputs[k] = handed[k];
}

/* Results of which the last turn left the values elsewhere: those first whose arrays are in no cycle,
 * because what is in a cycle may be read for another result. Rows that no turn gave are zeros, where
 * somebody may read them. */
static void end_turns(const dj_turns *all, int64_t turns, void **inputs) {
    for (int in_cycle = 0; in_cycle < 2; in_cycle++) {
        for (int k = 0; k < all->carried; k++) {
            const dj_turn_result *result = &all->result[k];
            if (!result->to || result->to == (char *)inputs[k]) continue;
            int is_own = result->from >= 0 && all->cycle[result->from].own == k;
            if (is_own == in_cycle) memcpy(result->to, inputs[k], (size_t)result->bytes);
        }
    }
    for (int k = all->carried; !all->unset && k < all->carried + all->collected; k++) {
        const dj_turn_result *result = &all->result[k];
        for (int64_t turn = turns; result->to && turn < all->limit; turn++) {
            int64_t place = all->backwards ? all->limit - 1 - turn : turn;
            memset(result->to + place * result->row, 0, (size_t)result->bytes);
        }
    }
    if (all->count) *all->count = turns;
}

/* By how much turns are counted on, so that the last one, if it is known, writes to the first array of
 * each cycle. */
static int64_t turn_shift(const dj_turns *all) {
    if (all->limit < 1 || all->test >= 0) return 0;
    int64_t common = 1;
    for (int k = 0; k < all->outputs; k++) {
        int64_t count = all->cycle[k].count;
        if (count > 1 && common % count) common *= count;
    }
    return (common - (all->limit - 1) % common) % common;
}

/* Nanoseconds between two looks for signals. */
#define SPAN_NS 20000000

static int64_t turn_clock(void) {
    struct timespec now;
#ifdef CLOCK_MONOTONIC_COARSE
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* `dj_runtime.run_turns`: signals are asked for where it is `polled`. Called with or without the GIL. */
static void run_turns(const dj_turns *all, int goes, int polled, const dj_runtime *runtime, int threads,
                      int64_t *status) {
    void *inputs[all->inputs + 1], *outputs[all->outputs + 1], *handed[all->carried + 1];
    dj_scalar scalars[all->numbers + 1];
    int64_t turn = 0, shift = turn_shift(all), stop = turn_clock() + SPAN_NS;
    memcpy(inputs, all->operands, sizeof(void *) * (size_t)all->inputs);
    while (goes && turn != all->limit) {
        int64_t place = all->backwards ? all->limit - 1 - turn : turn;
        begin_turn(all, turn, place, shift, inputs, outputs, scalars);
        all->run(all->owner, inputs, outputs, scalars, all->memory, runtime, threads, status);
        if (status[0]) return;
        goes = all->test < 0 || *(char *)outputs[all->test];
        end_turn(all, place, inputs, outputs, handed);
        turn++;
        if (!polled || turn & 15 || turn_clock() < stop) continue;
        if (is_interrupted()) {
            status[0] = 4;
            return;
        }
        stop = turn_clock() + SPAN_NS;
    }
    end_turns(all, turn, inputs);
}

/* `dj_runtime.run_chunk`. The first thread, which alone may ask for signals, has the first chunks. */
static void run_chunk(const dj_turns *all, const dj_chunks *chunks, int64_t chunk, int threads,
                      const dj_runtime *runtime, int64_t *status) {
    int results = all->carried + all->collected, is_last = chunk == chunks->count - 1;
    int64_t start = is_last ? chunks->elements - chunks->chunk : chunk * chunks->chunk;
    const void *operands[all->inputs + 1];
    dj_turn_result result[results + 1];
    char memory[chunks->bytes + 64];
    if (__atomic_load_n(status, __ATOMIC_RELAXED)) return;
    for (int k = 0; k < all->inputs; k++)
        operands[k] = (const char *)all->operands[k] + start * chunks->steps[k];
    for (int k = 0; k < results; k++) {
        result[k] = all->result[k];
        if (result[k].to) result[k].to += start * chunks->sizes[k];
    }
    dj_turns part = *all;
    part.operands = operands;
    part.result = result;
    part.memory = memory + (-(uintptr_t)memory & 63);
    if (!is_last) part.count = NULL;
    run_turns(&part, chunks->goes, chunk < chunks->count / threads, runtime, 1, status);
}

/* What the turns of a loop are, as `Program.turns` is told. */
typedef struct {
    Py_ssize_t carried, stacked, collected;
    int64_t limit;
    int test, backwards;
} Plan;

/* Memory of a call, all owned. */
typedef struct {
    Plan plan;
    dj_turn_number *numbers;
    dj_turn_result *results; /* what is carried, then what is collected */
    dj_turn_cycle *cycles;
    int64_t *rows;
    const void **operands;
    PyObject **held;  /* copies of arguments */
    PyObject **found; /* an array for each result; NULL for an argument that stays */
    char *memory;     /* the workspace of a turn, then cycles */
} Turns;

static int is_row_major(const Spec *spec) {
    npy_intp stride = (npy_intp)PyDataType_ELSIZE(spec->dtype);
    for (int d = spec->rank - 1; d >= 0; stride *= spec->shape[d], d--)
        if (spec->shape[d] > 1 && spec->shape[spec->rank + d] != stride) return 0;
    return 1;
}

static int is_plain_argument(const Spec *spec) {
    return spec->kind == ARGUMENT_TENSOR && (spec->any_strides || is_row_major(spec));
}

/* Whether turns can be run here: see above. */
static int can_turn(const ProgramObject *self, const Plan *plan) {
    Py_ssize_t numbers = self->scalar_count, kept = plan->carried + plan->collected;
    if (self->measure || recorder->is_on) return 0;
    for (Py_ssize_t i = 0; i < self->argument_count; i++)
        if ((self->arguments[i].kind == ARGUMENT_TENSOR) != (i >= numbers)) return 0;
    for (Py_ssize_t i = 0; i < plan->carried + plan->stacked; i++)
        if (!is_plain_argument(&self->arguments[numbers + i])) return 0;
    for (Py_ssize_t k = 0; k < kept; k++) {
        const Result *result = &self->results.items[k];
        if (result->kind == RESULT_NEW) continue;
        if (result->kind != RESULT_ARGUMENT || !is_plain_argument(&self->arguments[result->position]))
            return 0;
    }
    if (plan->test < 0) return 1;
    const Result *result = &self->results.items[plan->test];
    const Spec *spec = result->kind == RESULT_NEW ? &self->outputs[result->position] : NULL;
    return spec && PyDataType_ELSIZE(spec->dtype) == 1 && !spec->rank;
}

static void clear_turns(const ProgramObject *self, Turns *all) {
    Py_ssize_t kept = all->plan.carried + all->plan.collected;
    for (Py_ssize_t i = 0; all->held && i < self->tensor_count; i++) Py_XDECREF(all->held[i]);
    for (Py_ssize_t k = 0; all->found && k < kept; k++) Py_XDECREF(all->found[k]);
    PyMem_Free(all->numbers);
    PyMem_Free(all->results);
    PyMem_Free(all->cycles);
    PyMem_Free(all->rows);
    PyMem_Free(all->operands);
    PyMem_Free(all->held);
    PyMem_Free(all->found);
    free(all->memory);
}

static size_t bytes_of(const Spec *spec) {
    size_t size = (size_t)PyDataType_ELSIZE(spec->dtype);
    for (int d = 0; d < spec->rank; d++) size *= (size_t)spec->shape[d];
    return size;
}

/* An array of rows. */
static PyObject *new_rows(const Spec *spec, npy_intp rows) {
    npy_intp sizes[NPY_MAXDIMS];
    if (spec->rank >= NPY_MAXDIMS)
        return PyErr_Format(PyExc_ValueError, "a stack would have %d dims", spec->rank + 1);
    sizes[0] = rows;
    for (int d = 0; d < spec->rank; d++) sizes[d + 1] = spec->shape[d];
    Spec whole = {spec->dtype, sizes, ARGUMENT_TENSOR, spec->rank + 1, 1};
    return new_output(&whole, sizes);
}

/* Where each result comes from, and arrays for those that are not the arguments they replace. */
static int read_results_of_turns(ProgramObject *self, Turns *all) {
    const Plan *plan = &all->plan;
    for (Py_ssize_t k = 0; k < plan->carried + plan->collected; k++) {
        const Result *given = &self->results.items[k];
        int is_new = given->kind == RESULT_NEW, is_carried = k < plan->carried;
        Spec *spec = is_new ? &self->outputs[given->position] : &self->arguments[given->position];
        dj_turn_result *result = &all->results[k];
        int place = (int)given->position - (is_new ? 0 : (int)self->scalar_count);
        result->from = is_new ? place : ~place;
        result->bytes = result->row = (int64_t)bytes_of(spec);
        if (is_carried && !is_new && place == k) continue;
        all->found[k] =
            is_carried ? new_output(spec, spec->shape) : new_rows(spec, (npy_intp)plan->limit);
        if (!all->found[k]) return -1;
        result->to = PyArray_BYTES((PyArrayObject *)all->found[k]);
    }
    return 0;
}

/* How many turns may hand on what one of them was given, each in another place. */
static int64_t longest_chain(const Turns *all) {
    const Plan *plan = &all->plan;
    int64_t longest = 0;
    for (Py_ssize_t k = 0; k < plan->carried; k++) {
        int64_t length = 0;
        int from = all->results[k].from;
        while (from < 0 && ~from < plan->carried && length <= plan->carried) {
            from = all->results[~from].from;
            length++;
        }
        if (from >= 0 && length > longest) longest = length;
    }
    return longest;
}

#define ALIGNED(bytes) (((bytes) + 63) & ~(int64_t)63)

/* Where each output is written, and memory for it: see `codegen.plan.turns`. */
static int read_cycles(ProgramObject *self, Turns *all) {
    const Plan *plan = &all->plan;
    int64_t place = ALIGNED((int64_t)self->workspace_size), chain = longest_chain(all);
    for (Py_ssize_t p = 0; p < self->output_count; p++)
        all->cycles[p] = (dj_turn_cycle){-1, -1, 1, 0, ALIGNED((int64_t)bytes_of(&self->outputs[p]))};
    for (Py_ssize_t k = plan->carried + plan->collected - 1; k >= 0; k--) {
        if (all->results[k].from < 0) continue;
        dj_turn_cycle *cycle = &all->cycles[all->results[k].from];
        if (k >= plan->carried) cycle->row = (int)k;
        else cycle->own = (int)k, cycle->count = 2 + chain;
    }
    for (Py_ssize_t p = 0; p < self->output_count; p++) {
        dj_turn_cycle *cycle = &all->cycles[p];
        cycle->place = place;
        if (cycle->row < 0) place += (cycle->count - (cycle->own >= 0)) * cycle->step;
        else cycle->count = 0, cycle->own = -1;
    }
    if (!place) return 0;
    void *memory = NULL;
    if (posix_memalign(&memory, 64, (size_t)place)) return PyErr_NoMemory(), -1;
    all->memory = memory;
    return 0;
}

/* An argument of which each turn gets a row. */
static int read_stacked(const ProgramObject *self, Py_ssize_t number, PyObject *given, Turns *all) {
    const Spec *spec = &self->arguments[self->scalar_count + number];
    PyArrayObject *array = (PyArrayObject *)given;
    if (!PyArray_Check(given) || PyArray_NDIM(array) != spec->rank + 1 ||
        !PyArray_ISCARRAY_RO(array) || !PyArray_EquivTypes(PyArray_DESCR(array), spec->dtype) ||
        PyArray_DIM(array, 0) != all->plan.limit ||
        (spec->rank &&
         memcmp(PyArray_DIMS(array) + 1, spec->shape, sizeof(npy_intp) * (size_t)spec->rank))) {
        PyErr_SetString(PyExc_TypeError, "what is stacked has a row for each turn");
        return -1;
    }
    all->operands[number] = PyArray_DATA(array);
    all->rows[number - all->plan.carried] = (int64_t)bytes_of(spec);
    return 0;
}

static int read_numbers(const ProgramObject *self, PyObject *given, Turns *all) {
    int64_t limit = all->plan.limit;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); i++) {
        PyObject *number = PyTuple_GET_ITEM(given, i);
        int type = self->arguments[i].kind == ARGUMENT_FLOATING ? NPY_FLOAT64 : NPY_INT64;
        if (!PyArray_Check(number)) {
            long long start, step;
            if (type != NPY_INT64 || !PyArg_ParseTuple(number, "LL", &start, &step)) {
                if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a number has steps of ints");
                return -1;
            }
            all->numbers[i] = (dj_turn_number){start, step, NULL};
            continue;
        }
        PyArrayObject *listed = (PyArrayObject *)number;
        if (!PyArray_ISCARRAY_RO(listed) || PyArray_TYPE(listed) != type || PyArray_NDIM(listed) != 1 ||
            limit < 0 || PyArray_DIM(listed, 0) < limit) {
            PyErr_SetString(PyExc_TypeError, "numbers of turns are an array with one for each turn");
            return -1;
        }
        all->numbers[i].listed = PyArray_DATA(listed);
    }
    return 0;
}

/* Memory for everything, and the arguments. */
static int begin_turns(ProgramObject *self, PyObject *values, Turns *all) {
    const Plan *plan = &all->plan;
    size_t tensors = (size_t)self->tensor_count + 1;
    size_t kept = (size_t)(plan->carried + plan->collected) + 1;
    all->operands = PyMem_Calloc(tensors, sizeof(void *));
    all->held = PyMem_Calloc(tensors, sizeof(PyObject *));
    all->cycles = PyMem_Calloc((size_t)self->output_count + 1, sizeof(dj_turn_cycle));
    all->results = PyMem_Calloc(kept, sizeof(dj_turn_result));
    all->found = PyMem_Calloc(kept, sizeof(PyObject *));
    all->rows = PyMem_Calloc((size_t)plan->stacked + 1, sizeof(int64_t));
    if (!all->operands || !all->held || !all->cycles || !all->results || !all->found || !all->rows)
        return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < self->tensor_count; i++) {
        Py_ssize_t position = self->scalar_count + i;
        Spec *spec = &self->arguments[position];
        PyObject *value = PyTuple_GET_ITEM(values, i);
        if (i >= plan->carried && i < plan->carried + plan->stacked) {
            if (read_stacked(self, i, value, all) < 0) return -1;
            continue;
        }
        all->operands[i] = tensor_data(self, position, value, spec, spec->shape, &all->held[i]);
        if (!all->operands[i]) return -1;
    }
    return read_results_of_turns(self, all) < 0 ? -1 : read_cycles(self, all);
}

static void run_program(const void *owner, void **inputs, void **outputs, const dj_scalar *scalars,
                        char *workspace, const dj_runtime *runtime, int threads, int64_t *status) {
    const ProgramObject *self = owner;
    self->run(inputs, outputs, self->constant_data, scalars, workspace, runtime, threads, status);
}

/* The number of turns that ran, or -1 with an error. */
static int64_t run_all_turns(ProgramObject *self, Turns *all) {
    const Plan *plan = &all->plan;
    int64_t status[4] = {0, 0, 0, 0}, count = 0;
    int threads = team_of(self);
    int test = plan->test < 0 ? -1 : (int)self->results.items[plan->test].position;
    const dj_turns turns = {
        run_program, self, plan->limit, (int)self->scalar_count, (int)plan->carried,
        (int)plan->collected, (int)plan->stacked, (int)self->tensor_count, (int)self->output_count,
        test, plan->backwards, 1, all->numbers, all->results, all->cycles, all->rows, all->operands,
        all->memory, &count,
    };
    has_had_team |= threads > 1;
    silence(&self->pool);
    Py_BEGIN_ALLOW_THREADS
    run_turns(&turns, 1, 1, &self->runtime, threads, status);
    Py_END_ALLOW_THREADS
    if (threads > 1) team_ran(team);
    restore(&self->pool);
    if (status[0]) raise_failure(self, status);
    return status[0] ? -1 : count;
}

/* A result; of what was collected, the rows that there are. */
static PyObject *result_of_turns(const Turns *all, Py_ssize_t k, int64_t turns, PyObject *values) {
    if (!all->found[k]) return Py_NewRef(PyTuple_GET_ITEM(values, k));
    if (k < all->plan.carried || turns == all->plan.limit) return Py_NewRef(all->found[k]);
    return PySequence_GetSlice(all->found[k], 0, turns);
}

static PyObject *Program_turns(ProgramObject *self, PyObject *args) {
    PyObject *numbers, *values, *found = NULL;
    Turns all = {0};
    Plan plan = {0};
    long long limit;
    if (!PyArg_ParseTuple(args, "O!O!nLi|nnp:turns", &PyTuple_Type, &numbers, &PyTuple_Type, &values,
                          &plan.carried, &limit, &plan.test, &plan.stacked, &plan.collected,
                          &plan.backwards))
        return NULL;
    plan.limit = limit;
    if (PyTuple_GET_SIZE(numbers) != self->scalar_count ||
        PyTuple_GET_SIZE(values) != self->tensor_count || plan.carried < 0 || plan.stacked < 0 ||
        plan.collected < 0 || plan.carried + plan.stacked > self->tensor_count ||
        plan.carried + plan.collected > self->results.count || plan.test >= self->results.count ||
        limit < -1 || (limit < 0 && (plan.stacked || plan.collected || plan.backwards)))
        return PyErr_Format(PyExc_TypeError, "%U: turns of another program.", self->name);
    if (!can_turn(self, &plan)) Py_RETURN_NONE;
    all.plan = plan;
    all.numbers = PyMem_Calloc((size_t)self->scalar_count + 1, sizeof(dj_turn_number));
    if (!all.numbers) return PyErr_NoMemory();
    if (read_numbers(self, numbers, &all) < 0 || begin_turns(self, values, &all) < 0) goto done;
    int64_t turns = run_all_turns(self, &all);
    Py_ssize_t kept = plan.carried + plan.collected;
    if (turns < 0 || !(found = PyTuple_New(kept + 1))) goto done;
    for (Py_ssize_t k = 0; k < kept; k++) {
        PyObject *result = result_of_turns(&all, k, turns, values);
        if (!result) {
            Py_CLEAR(found);
            goto done;
        }
        PyTuple_SET_ITEM(found, k, result);
    }
    PyObject *count = PyLong_FromLongLong(turns);
    if (count) PyTuple_SET_ITEM(found, kept, count);
    else Py_CLEAR(found);
done:
    clear_turns(self, &all);
    return found;
}

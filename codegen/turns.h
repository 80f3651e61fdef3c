/* Turns of a loop by a compiled program; included by _runtime.c.
 *
 * Contract: `Program.turns(numbers, values, carried, limit, test, stacked, collected, backwards)` runs
 * the program until `limit` turns are over (-1: no limit), or result `test` of a turn is false (-1: no
 * test). A turn takes its numbers, what the turn before handed on, its row of each array that is
 * stacked, and what is fixed; its first `carried` results are handed on, and the `collected` after
 * them are kept: a row of an array each. A number is (start, step) or an array with one for each turn.
 * Backwards, turn 0 has the last numbers and rows. Nothing is allocated per turn: what is handed on
 * lies in two sets of arrays, one read and one written, and a row is written where it stays. The GIL
 * is released, and signals are asked for between spans of turns. The value is (what was handed on at
 * the end, ..., what was collected, ..., number of turns); None, and nothing was done, where the
 * program is of another kind: sizes that vary, results that are constants, or kernels that are being
 * timed.
 */

#include <time.h>

/* A number of each turn. */
typedef struct {
    int64_t start, step;
    PyArrayObject *listed; /* borrowed; NULL: start + step * turn */
} TurnNumber;

/* How a result gets to where it is read: it is written there; or copied from an output, or from an
 * argument; or it is the argument that it replaces. */
enum { BY_POINTER, COPIES_OUTPUT, COPIES_INPUT, STAYS };

/* A result that is handed on (its own arrays are used in turn), or collected (a row of the first). */
typedef struct {
    int way;
    Py_ssize_t from;   /* number of an output, or of a tensor among the arguments */
    size_t bytes;      /* of one turn */
    PyObject *own[2];  /* owned; NULL where others are used */
} Handed;

/* An array of which each turn gets a row. */
typedef struct {
    char *data;
    size_t bytes; /* of a row */
} Stacked;

/* What the turns of a loop are. */
typedef struct {
    Py_ssize_t carried, stacked, collected;
    int64_t limit;
    int test, backwards;
} Plan;

/* Memory of a call, all owned. */
typedef struct {
    Plan plan;
    TurnNumber *numbers;
    Handed *handed; /* what is carried, then what is collected */
    Stacked *stacked;
    void **inputs, **outputs[2];
    PyObject **held;   /* copies of arguments */
    PyObject **arrays; /* outputs of even turns, then those of odd ones */
    Scalar *scalars;
} Turns;

/* Nanoseconds between two looks for signals. */
#define SPAN_NS 20000000

static int64_t turn_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

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
    for (Py_ssize_t i = 0; all->held && i < self->tensor_count; i++) Py_XDECREF(all->held[i]);
    for (Py_ssize_t i = 0; all->arrays && i < 2 * self->output_count; i++)
        Py_XDECREF(all->arrays[i]);
    for (Py_ssize_t k = 0; all->handed && k < 2 * (all->plan.carried + all->plan.collected); k++)
        Py_XDECREF(all->handed[k / 2].own[k & 1]);
    PyMem_Free(all->handed);
    PyMem_Free(all->stacked);
    PyMem_Free(all->numbers);
    PyMem_Free(all->inputs);
    PyMem_Free(all->outputs[0]);
    PyMem_Free(all->held);
    PyMem_Free(all->arrays);
    PyMem_Free(all->scalars);
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

/* How each result gets to where it is read, and memory for it. */
static int read_results_of_turns(ProgramObject *self, Turns *all) {
    const Plan *plan = &all->plan;
    Py_ssize_t numbers = self->scalar_count;
    for (Py_ssize_t k = 0; k < plan->carried + plan->collected; k++) {
        const Result *result = &self->results.items[k];
        Handed *handed = &all->handed[k];
        int is_new = result->kind == RESULT_NEW, is_carried = k < plan->carried, is_shared = 0;
        Spec *spec = is_new ? &self->outputs[result->position] : &self->arguments[result->position];
        handed->from = is_new ? result->position : result->position - numbers;
        handed->bytes = bytes_of(spec);
        for (Py_ssize_t other = 0; other < k && !is_carried; other++)
            is_shared |= self->results.items[other].kind == RESULT_NEW &&
                         self->results.items[other].position == result->position;
        handed->way = !is_new ? COPIES_INPUT : is_shared ? COPIES_OUTPUT : BY_POINTER;
        if (!is_carried) {
            if (!(handed->own[0] = new_rows(spec, (npy_intp)plan->limit))) return -1;
            continue;
        }
        if (!is_new && handed->from == k) handed->way = STAYS;
        for (int set = 0; handed->way == COPIES_INPUT && set < 2; set++)
            if (!(handed->own[set] = new_output(spec, spec->shape))) return -1;
    }
    return 0;
}

/* An argument of which each turn gets a row. */
static int read_stacked(const ProgramObject *self, Py_ssize_t number, PyObject *given, Turns *all) {
    const Spec *spec = &self->arguments[self->scalar_count + number];
    PyArrayObject *array = (PyArrayObject *)given;
    Stacked *stacked = &all->stacked[number - all->plan.carried];
    if (!PyArray_Check(given) || PyArray_NDIM(array) != spec->rank + 1 ||
        !PyArray_ISCARRAY_RO(array) || !PyArray_EquivTypes(PyArray_DESCR(array), spec->dtype) ||
        PyArray_DIM(array, 0) != all->plan.limit ||
        (spec->rank &&
         memcmp(PyArray_DIMS(array) + 1, spec->shape, sizeof(npy_intp) * (size_t)spec->rank))) {
        PyErr_SetString(PyExc_TypeError, "what is stacked has a row for each turn");
        return -1;
    }
    *stacked = (Stacked){PyArray_DATA(array), bytes_of(spec)};
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
            all->numbers[i] = (TurnNumber){start, step, NULL};
            continue;
        }
        PyArrayObject *listed = (PyArrayObject *)number;
        if (!PyArray_ISCARRAY_RO(listed) || PyArray_TYPE(listed) != type || PyArray_NDIM(listed) != 1 ||
            limit < 0 || PyArray_DIM(listed, 0) < limit) {
            PyErr_SetString(PyExc_TypeError, "numbers of turns are an array with one for each turn");
            return -1;
        }
        all->numbers[i].listed = listed;
    }
    return 0;
}

/* Memory for everything, and the arguments of the first turn. */
static int begin_turns(ProgramObject *self, PyObject *values, Turns *all) {
    size_t tensors = (size_t)self->tensor_count + 1, outputs = (size_t)self->output_count + 1;
    all->inputs = PyMem_Calloc(tensors, sizeof(void *));
    all->outputs[0] = PyMem_Calloc(2 * outputs, sizeof(void *));
    all->outputs[1] = all->outputs[0] + outputs;
    all->held = PyMem_Calloc(tensors, sizeof(PyObject *));
    all->arrays = PyMem_Calloc(2 * outputs, sizeof(PyObject *));
    all->scalars = PyMem_Calloc((size_t)self->scalar_count + 1, sizeof(Scalar));
    size_t kept = (size_t)(all->plan.carried + all->plan.collected) + 1;
    all->handed = PyMem_Calloc(kept, sizeof(Handed));
    all->stacked = PyMem_Calloc((size_t)all->plan.stacked + 1, sizeof(Stacked));
    if (!all->inputs || !all->outputs[0] || !all->held || !all->arrays || !all->scalars ||
        !all->handed || !all->stacked)
        return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < self->tensor_count; i++) {
        Py_ssize_t position = self->scalar_count + i;
        Spec *spec = &self->arguments[position];
        PyObject *value = PyTuple_GET_ITEM(values, i);
        if (i >= all->plan.carried && i < all->plan.carried + all->plan.stacked) {
            if (read_stacked(self, i, value, all) < 0) return -1;
            continue;
        }
        all->inputs[i] = tensor_data(self, position, value, spec, spec->shape, &all->held[i]);
        if (!all->inputs[i]) return -1;
    }
    for (Py_ssize_t i = 0; i < 2 * self->output_count; i++) {
        Py_ssize_t position = i % self->output_count, set = i / self->output_count;
        Spec *spec = &self->outputs[position];
        if (!(all->arrays[i] = new_output(spec, spec->shape))) return -1;
        all->outputs[set][position] = PyArray_DATA((PyArrayObject *)all->arrays[i]);
    }
    return read_results_of_turns(self, all);
}

/* The numbers and rows of a turn. */
static void begin_turn(const ProgramObject *self, Turns *all, int64_t place, void **outputs) {
    const Plan *plan = &all->plan;
    for (Py_ssize_t i = 0; i < self->scalar_count; i++) {
        const TurnNumber *number = &all->numbers[i];
        if (number->listed) /* eight bytes, of an int or a float */
            memcpy(&all->scalars[i], PyArray_GETPTR1(number->listed, place), sizeof(Scalar));
        else all->scalars[i].i = number->start + number->step * place;
    }
    for (Py_ssize_t i = 0; i < plan->stacked; i++)
        all->inputs[plan->carried + i] = all->stacked[i].data + (size_t)place * all->stacked[i].bytes;
    for (Py_ssize_t k = plan->carried; k < plan->carried + plan->collected; k++) {
        const Handed *handed = &all->handed[k];
        char *row = PyArray_BYTES((PyArrayObject *)handed->own[0]) + (size_t)place * handed->bytes;
        if (handed->way == BY_POINTER) outputs[handed->from] = row;
        if (handed->way == COPIES_INPUT) memcpy(row, all->inputs[handed->from], handed->bytes);
    }
}

/* Keep what a turn gives, and hand it on. */
static void end_turn(Turns *all, int64_t turn, int64_t place, void **outputs) {
    const Plan *plan = &all->plan;
    for (Py_ssize_t k = 0; k < plan->carried + plan->collected; k++) {
        const Handed *handed = &all->handed[k];
        if (k < plan->carried && handed->way == COPIES_INPUT)
            memcpy(PyArray_DATA((PyArrayObject *)handed->own[turn & 1]), all->inputs[handed->from],
                   handed->bytes);
        if (handed->way == COPIES_OUTPUT)
            memcpy(PyArray_BYTES((PyArrayObject *)handed->own[0]) + (size_t)place * handed->bytes,
                   outputs[handed->from], handed->bytes);
    }
    for (Py_ssize_t k = 0; k < plan->carried; k++) {
        const Handed *handed = &all->handed[k];
        if (handed->way == BY_POINTER) all->inputs[k] = outputs[handed->from];
        if (handed->way == COPIES_INPUT)
            all->inputs[k] = PyArray_DATA((PyArrayObject *)handed->own[turn & 1]);
    }
}

/* Turns from `turn` on until they are over, have failed, or signals are to be asked for. */
static int64_t run_span(ProgramObject *self, Turns *all, int64_t turn, void *workspace, int threads,
                        int64_t *status, int *is_over) {
    const Plan *plan = &all->plan;
    int64_t stop = turn_clock() + SPAN_NS;
    while (!*is_over) {
        void **outputs = all->outputs[turn & 1];
        int64_t place = plan->backwards ? plan->limit - 1 - turn : turn;
        begin_turn(self, all, place, outputs);
        self->run(all->inputs, outputs, self->constant_data, all->scalars, workspace, &self->runtime,
                  threads, status);
        if (status[0]) return turn;
        end_turn(all, turn, place, outputs);
        turn++;
        *is_over = turn == plan->limit ||
                   (plan->test >= 0 &&
                    !*(char *)outputs[self->results.items[plan->test].position]);
        if (!(turn & 15) && turn_clock() > stop) return turn;
    }
    return turn;
}

/* The number of turns that ran, or -1 with an error. */
static int64_t run_turns(ProgramObject *self, Turns *all) {
    int64_t status[4] = {0, 0, 0, 0}, turn = 0;
    size_t needed = self->workspace_size;
    void *workspace = NULL;
    if (needed && !(workspace = take_workspace(self, &needed))) return -1;
    int threads = team_of(self), is_over = !all->plan.limit;
    has_had_team |= threads > 1;
    silence(&self->pool);
    while (!is_over && !status[0] && !PyErr_CheckSignals()) {
        Py_BEGIN_ALLOW_THREADS
        turn = run_span(self, all, turn, workspace, threads, status, &is_over);
        Py_END_ALLOW_THREADS
    }
    if (threads > 1) team_ran(team);
    restore(&self->pool);
    if (workspace) keep_workspace(self, workspace, needed);
    if (status[0]) raise_failure(self, status);
    return PyErr_Occurred() ? -1 : turn;
}

/* What is handed on at the end of all turns, borrowed. */
static PyObject *last_of(const ProgramObject *self, const Turns *all, Py_ssize_t k, int64_t turns,
                         PyObject *given) {
    const Handed *handed = &all->handed[k];
    if (!turns || handed->way == STAYS) return given;
    if (handed->way == COPIES_INPUT) return handed->own[(turns - 1) & 1];
    return all->arrays[handed->from + (turns & 1 ? 0 : self->output_count)];
}

/* A new array of the rows that there are. */
static PyObject *rows_of(const Turns *all, Py_ssize_t k, int64_t turns) {
    PyObject *whole = all->handed[k].own[0];
    return turns == all->plan.limit ? Py_NewRef(whole) : PySequence_GetSlice(whole, 0, turns);
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
    all.numbers = PyMem_Calloc((size_t)self->scalar_count + 1, sizeof(TurnNumber));
    if (!all.numbers) return PyErr_NoMemory();
    if (read_numbers(self, numbers, &all) < 0 || begin_turns(self, values, &all) < 0) goto done;
    int64_t turns = run_turns(self, &all);
    Py_ssize_t kept = plan.carried + plan.collected;
    if (turns < 0 || !(found = PyTuple_New(kept + 1))) goto done;
    for (Py_ssize_t k = 0; k < plan.carried; k++)
        PyTuple_SET_ITEM(
            found, k, Py_NewRef(last_of(self, &all, k, turns, PyTuple_GET_ITEM(values, k))));
    for (Py_ssize_t k = plan.carried; k < kept; k++) {
        PyObject *rows = rows_of(&all, k, turns);
        if (!rows) {
            Py_CLEAR(found);
            goto done;
        }
        PyTuple_SET_ITEM(found, k, rows);
    }
    PyObject *count = PyLong_FromLongLong(turns);
    if (count) PyTuple_SET_ITEM(found, kept, count);
    else Py_CLEAR(found);
done:
    clear_turns(self, &all);
    return found;
}

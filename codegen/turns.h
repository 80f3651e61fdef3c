/* Turns of a loop by a compiled program; included by _runtime.c.
 *
 * Contract: `Program.turns(numbers, values, carried, limit, test)` runs the program until `limit`
 * turns are over (-1: no limit), or result `test` of a turn is false (-1: no test). A turn takes its
 * numbers, what the turn before handed on, and what is fixed; its first `carried` results are handed
 * on. A number is (start, step) or an array with one for each turn. Nothing is allocated per turn:
 * what is handed on lies in two sets of arrays, one read and one written. The GIL is released, and
 * signals are asked for between spans of turns. The value is (array that was handed on at the end,
 * ..., number of turns); None, and nothing was done, where the program is of another kind: sizes
 * that vary, results that are arguments, or kernels that are being timed.
 */

#include <time.h>

/* A number of each turn. */
typedef struct {
    int64_t start, step;
    PyArrayObject *listed; /* borrowed; NULL: start + step * turn */
} TurnNumber;

/* Memory of a call, all owned. */
typedef struct {
    TurnNumber *numbers;
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

/* Whether turns can be run here: see above. */
static int can_turn(const ProgramObject *self, Py_ssize_t numbers, Py_ssize_t carried, int test) {
    if (self->measure || recorder->is_on) return 0;
    for (Py_ssize_t i = 0; i < self->argument_count; i++)
        if ((self->arguments[i].kind == ARGUMENT_TENSOR) != (i >= numbers)) return 0;
    for (Py_ssize_t k = 0; k < carried; k++) {
        const Result *result = &self->results.items[k];
        const Spec *spec = &self->arguments[numbers + k];
        if (result->kind != RESULT_NEW || !(spec->any_strides || is_row_major(spec))) return 0;
        for (Py_ssize_t other = 0; other < k; other++)
            if (self->results.items[other].position == result->position) return 0;
    }
    if (test < 0) return 1;
    const Result *result = &self->results.items[test];
    const Spec *spec = result->kind == RESULT_NEW ? &self->outputs[result->position] : NULL;
    return spec && PyDataType_ELSIZE(spec->dtype) == 1 && !spec->rank;
}

static void clear_turns(const ProgramObject *self, Turns *all) {
    for (Py_ssize_t i = 0; all->held && i < self->tensor_count; i++) Py_XDECREF(all->held[i]);
    for (Py_ssize_t i = 0; all->arrays && i < 2 * self->output_count; i++)
        Py_XDECREF(all->arrays[i]);
    PyMem_Free(all->numbers);
    PyMem_Free(all->inputs);
    PyMem_Free(all->outputs[0]);
    PyMem_Free(all->held);
    PyMem_Free(all->arrays);
    PyMem_Free(all->scalars);
}

static int read_numbers(const ProgramObject *self, PyObject *given, int64_t limit, Turns *all) {
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
    if (!all->inputs || !all->outputs[0] || !all->held || !all->arrays || !all->scalars)
        return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < self->tensor_count; i++) {
        Py_ssize_t position = self->scalar_count + i;
        Spec *spec = &self->arguments[position];
        all->inputs[i] = tensor_data(self, position, PyTuple_GET_ITEM(values, i), spec, spec->shape,
                                     &all->held[i]);
        if (!all->inputs[i]) return -1;
    }
    for (Py_ssize_t i = 0; i < 2 * self->output_count; i++) {
        Py_ssize_t position = i % self->output_count, set = i / self->output_count;
        Spec *spec = &self->outputs[position];
        if (!(all->arrays[i] = new_output(spec, spec->shape))) return -1;
        all->outputs[set][position] = PyArray_DATA((PyArrayObject *)all->arrays[i]);
    }
    return 0;
}

/* Turns from `turn` on until they are over, have failed, or signals are to be asked for. */
static int64_t run_span(ProgramObject *self, Turns *all, int64_t turn, Py_ssize_t carried,
                        int64_t limit, int test, void *workspace, int threads, int64_t *status,
                        int *is_over) {
    int64_t stop = turn_clock() + SPAN_NS;
    while (!*is_over) {
        void **outputs = all->outputs[turn & 1];
        for (Py_ssize_t i = 0; i < self->scalar_count; i++) {
            const TurnNumber *number = &all->numbers[i];
            if (number->listed) /* eight bytes, of an int or a float */
                memcpy(&all->scalars[i], PyArray_GETPTR1(number->listed, turn), sizeof(Scalar));
            else all->scalars[i].i = number->start + number->step * turn;
        }
        self->run(all->inputs, outputs, self->constant_data, all->scalars, workspace, &self->runtime,
                  threads, status);
        if (status[0]) return turn;
        for (Py_ssize_t k = 0; k < carried; k++)
            all->inputs[k] = outputs[self->results.items[k].position];
        turn++;
        *is_over = turn == limit ||
                   (test >= 0 && !*(char *)outputs[self->results.items[test].position]);
        if (!(turn & 15) && turn_clock() > stop) return turn;
    }
    return turn;
}

/* The number of turns that ran, or -1 with an error. */
static int64_t run_turns(ProgramObject *self, Turns *all, Py_ssize_t carried, int64_t limit,
                         int test) {
    int64_t status[4] = {0, 0, 0, 0}, turn = 0;
    size_t needed = self->workspace_size;
    void *workspace = NULL;
    if (needed && !(workspace = take_workspace(self, &needed))) return -1;
    int threads = team_of(self), is_over = !limit;
    has_had_team |= threads > 1;
    silence(&self->pool);
    while (!is_over && !status[0] && !PyErr_CheckSignals()) {
        Py_BEGIN_ALLOW_THREADS
        turn = run_span(self, all, turn, carried, limit, test, workspace, threads, status, &is_over);
        Py_END_ALLOW_THREADS
    }
    restore(&self->pool);
    if (workspace) keep_workspace(self, workspace, needed);
    if (status[0]) raise_failure(self, status);
    return PyErr_Occurred() ? -1 : turn;
}

static PyObject *Program_turns(ProgramObject *self, PyObject *args) {
    PyObject *numbers, *values, *found = NULL;
    Py_ssize_t carried;
    long long limit;
    int test;
    if (!PyArg_ParseTuple(args, "O!O!nLi:turns", &PyTuple_Type, &numbers, &PyTuple_Type, &values,
                          &carried, &limit, &test))
        return NULL;
    if (PyTuple_GET_SIZE(numbers) != self->scalar_count ||
        PyTuple_GET_SIZE(values) != self->tensor_count || carried < 0 ||
        carried > self->tensor_count || carried > self->results.count ||
        test >= self->results.count || limit < -1)
        return PyErr_Format(PyExc_TypeError, "%U: turns of another program.", self->name);
    if (!can_turn(self, self->scalar_count, carried, test)) Py_RETURN_NONE;
    Turns all = {0};
    all.numbers = PyMem_Calloc((size_t)self->scalar_count + 1, sizeof(TurnNumber));
    if (!all.numbers) return PyErr_NoMemory();
    if (read_numbers(self, numbers, limit, &all) < 0 || begin_turns(self, values, &all) < 0)
        goto done;
    int64_t turns = run_turns(self, &all, carried, limit, test);
    if (turns < 0 || !(found = PyTuple_New(carried + 1))) goto done;
    for (Py_ssize_t k = 0; k < carried; k++) {
        Py_ssize_t place = self->results.items[k].position + (turns & 1 ? 0 : self->output_count);
        PyObject *last = turns ? all.arrays[place] : PyTuple_GET_ITEM(values, k);
        PyTuple_SET_ITEM(found, k, Py_NewRef(last));
    }
    PyObject *count = PyLong_FromLongLong(turns);
    if (count) PyTuple_SET_ITEM(found, carried, count);
    else Py_CLEAR(found);
done:
    clear_turns(self, &all);
    return found;
}

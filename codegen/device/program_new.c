/* Programs from Python's description. See program.h. */
#include "program.h"

void clear_specs(Spec *specs, Py_ssize_t count) {
    for (Py_ssize_t i = 0; specs && i < count; i++) {
        Py_XDECREF(specs[i].dtype);
        Py_XDECREF(specs[i].shape);
        PyMem_Free(specs[i].sizes);
        PyMem_Free(specs[i].strides);
    }
    PyMem_Free(specs);
}

/* Item of a tuple of integers. */
static int64_t item(PyObject *tuple, int place) {
    return PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, place));
}

/* (dtype, slots of sizes, strides in bytes, any_strides, shape or None) or an integer kind */
static int read_spec(ProgramObject *self, PyObject *given, Spec *spec) {
    if (PyLong_Check(given)) {
        spec->kind = (int)PyLong_AsLong(given);
        return 0;
    }
    PyObject *dtype, *sizes, *strides, *shape;
    if (!PyArg_ParseTuple(given, "OO!O!pO", &dtype, &PyTuple_Type, &sizes, &PyTuple_Type, &strides,
                          &spec->any_strides, &shape) ||
        !PyArray_DescrConverter(dtype, &spec->dtype))
        return -1;
    spec->kind = ARGUMENT_TENSOR;
    spec->rank = (int)PyTuple_GET_SIZE(sizes);
    spec->shape = shape == Py_None ? NULL : Py_NewRef(shape);
    spec->sizes = PyMem_Calloc((size_t)spec->rank + 1, sizeof(int));
    spec->strides = PyMem_Calloc((size_t)spec->rank + 1, sizeof(int64_t));
    if (!spec->sizes || !spec->strides) return PyErr_NoMemory(), -1;
    for (int d = 0; d < spec->rank; d++) {
        spec->sizes[d] = (int)item(sizes, d);
        if (!spec->any_strides) spec->strides[d] = item(strides, d);
        if (PyErr_Occurred()) return -1;
        if (spec->sizes[d] < 0 || spec->sizes[d] >= self->plan->slot_count)
            return PyErr_SetString(PyExc_ValueError, "a size names a word that does not exist"), -1;
    }
    return 0;
}

static Spec *read_specs(ProgramObject *self, PyObject *given, Py_ssize_t *count) {
    *count = PyTuple_GET_SIZE(given);
    Spec *specs = PyMem_Calloc((size_t)*count + 1, sizeof(Spec));
    if (!specs) return (Spec *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < *count; i++)
        if (read_spec(self, PyTuple_GET_ITEM(given, i), &specs[i]) < 0) {
            clear_specs(specs, *count);
            return NULL;
        }
    return specs;
}

/* Which of the tensors each result is that the kernels write to. */
static void find_written(ProgramObject *self) {
    for (Py_ssize_t i = 0; i < self->results.count; i++) {
        Result *result = &self->results.items[i];
        for (int j = 0; result->kind == RESULT_WRITTEN && j < result->position; j++)
            result->tensor += self->arguments[j].kind == ARGUMENT_TENSOR;
    }
}

/* (argument, dimension or -1, slot, low, high) of each symbol */
static int read_symbols(ProgramObject *self, PyObject *given) {
    self->symbol_count = PyTuple_GET_SIZE(given);
    self->symbols = PyMem_Calloc((size_t)self->symbol_count + 1, sizeof(Symbol));
    if (!self->symbols) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < self->symbol_count; i++) {
        Symbol *symbol = &self->symbols[i];
        long long low, high;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(given, i), "niiLL", &symbol->argument, &symbol->dim,
                              &symbol->slot, &low, &high))
            return -1;
        symbol->low = low;
        symbol->high = high;
        int exists = symbol->argument >= 0 && symbol->argument < self->argument_count;
        const Spec *spec = exists ? &self->arguments[symbol->argument] : NULL;
        if (!spec || symbol->slot < 0 || symbol->slot >= self->plan->slot_count ||
            (symbol->dim < 0 ? spec->kind != ARGUMENT_INTEGER
                             : spec->kind != ARGUMENT_TENSOR || symbol->dim >= spec->rank)) {
            PyErr_SetString(PyExc_ValueError, "a symbol names an argument that does not show it");
            return -1;
        }
    }
    return 0;
}

/* Addresses of constants become words of the plan: they never change. */
static int read_constants(ProgramObject *self) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->constants); i++) {
        long long address = array_address(PyTuple_GET_ITEM(self->constants, i));
        if (PyErr_Occurred()) return -1;
        self->plan->initial[self->constants_first + i] = (uint64_t)address;
    }
    return 0;
}

static int is_within(ProgramObject *self, Py_ssize_t first, Py_ssize_t count) {
    if (first >= 0 && first + count <= self->plan->slot_count) return 1;
    PyErr_SetString(PyExc_ValueError, "a program has more words than its plan");
    return 0;
}

/* All words must be the same for a replay but the numbers of the call. */
static int mark_identity(ProgramObject *self, Py_ssize_t scalar_count) {
    self->is_identity = PyMem_Malloc((size_t)self->plan->slot_count + 1);
    if (!self->is_identity) return PyErr_NoMemory(), -1;
    memset(self->is_identity, 1, (size_t)self->plan->slot_count);
    memset(self->is_identity + self->scalars_first, 0, (size_t)scalar_count);
    self->replays.is_identity = self->is_identity;
    return 0;
}

static int read_program(ProgramObject *self, PyObject *arguments, PyObject *outputs,
                        PyObject *results, PyObject *symbols) {
    if (!(self->arguments = read_specs(self, arguments, &self->argument_count)) ||
        !(self->outputs = read_specs(self, outputs, &self->output_count)) ||
        read_results(&self->results, results, self->argument_count, self->output_count) < 0 ||
        read_symbols(self, symbols) < 0)
        return -1;
    find_written(self);
    for (Py_ssize_t i = 0; i < self->argument_count; i++)
        self->tensor_count += self->arguments[i].kind == ARGUMENT_TENSOR;
    self->seen = PyMem_Calloc((size_t)self->tensor_count + 1, sizeof(Seen));
    if (!self->seen) return PyErr_NoMemory(), -1;
    Py_ssize_t scalar_count = self->argument_count - self->tensor_count;
    if (!is_within(self, SLOT_FIRST, self->tensor_count + self->output_count) ||
        !is_within(self, self->scalars_first, scalar_count) ||
        !is_within(self, self->constants_first, PyTuple_GET_SIZE(self->constants)))
        return -1;
    return read_constants(self) < 0 ? -1 : mark_identity(self, scalar_count);
}

PyObject *Program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name", "plan", "arguments", "outputs", "results", "symbols",
                            "constants", "scalars_first", "constants_first", "arrays", "fail",
                            "replays", NULL};
    PyObject *name, *plan, *arguments, *outputs, *results, *symbols, *constants, *fail, *array_type;
    PyObject *empty, *contiguous, *memory, *stream, *elsewhere;
    int scalars_first, constants_first, replays;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "UO!O!O!O!O!O!ii(O!OOOOO)Op:Program", names, &name, &Plan_Type, &plan,
            &PyTuple_Type, &arguments, &PyTuple_Type, &outputs, &PyTuple_Type, &results,
            &PyTuple_Type, &symbols, &PyTuple_Type, &constants, &scalars_first, &constants_first,
            &PyType_Type, &array_type, &empty, &contiguous, &memory, &stream, &elsewhere, &fail,
            &replays))
        return NULL;
    ProgramObject *self = (ProgramObject *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = Program_call;
    self->name = Py_NewRef(name);
    self->plan = (PlanObject *)Py_NewRef(plan);
    self->constants = Py_NewRef(constants);
    self->fail = Py_NewRef(fail);
    self->array_type = (PyTypeObject *)Py_NewRef(array_type);
    self->empty = Py_NewRef(empty);
    self->contiguous = Py_NewRef(contiguous);
    self->memory = Py_NewRef(memory);
    self->stream = Py_NewRef(stream);
    self->elsewhere = Py_NewRef(elsewhere);
    self->scalars_first = scalars_first;
    self->constants_first = constants_first;
    self->replays.is_on = replays;
    pthread_mutex_init(&self->replays.lock, NULL);
    if (read_program(self, arguments, outputs, results, symbols) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* What a compiled program returns, chosen from what a call has at hand; included by _runtime.c and by
 * device/program.h, whose programs are built and called alike.
 *
 * Contract: `read_results` reads (kind, position, object) of each result and leaves what was read to
 * `clear_results`, also after an error; `collect_results` makes the tuple.
 */
enum { RESULT_NEW, RESULT_ARGUMENT, RESULT_WRITTEN, RESULT_OBJECT };

typedef struct {
    int kind, position;
    Py_ssize_t tensor; /* of RESULT_WRITTEN: its number among the arguments that are tensors */
    PyObject *object;  /* owned; for RESULT_OBJECT */
} Result;

typedef struct {
    Result *items; /* NULL before they are read */
    Py_ssize_t count;
} Results;

/* -1 with an exception. The owner sets `tensor`. */
static inline int read_results(Results *results, PyObject *given, Py_ssize_t argument_count,
                               Py_ssize_t output_count) {
    results->count = PyTuple_GET_SIZE(given);
    results->items = PyMem_Calloc((size_t)results->count + 1, sizeof(Result));
    if (!results->items) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < results->count; i++) {
        Result *result = &results->items[i];
        PyObject *object;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(given, i), "iiO", &result->kind, &result->position,
                              &object))
            return -1;
        Py_ssize_t limit = result->kind == RESULT_NEW ? output_count : argument_count;
        if (result->kind != RESULT_OBJECT && (result->position < 0 || result->position >= limit)) {
            PyErr_SetString(PyExc_ValueError, "a result names an array that does not exist");
            return -1;
        }
        result->object = Py_NewRef(object);
    }
    return 0;
}

static inline int visit_results(const Results *results, visitproc visit, void *arg) {
    for (Py_ssize_t i = 0; results->items && i < results->count; i++)
        Py_VISIT(results->items[i].object);
    return 0;
}

static inline void clear_results(Results *results) {
    for (Py_ssize_t i = 0; results->items && i < results->count; i++)
        Py_CLEAR(results->items[i].object);
}

/* Args: `arrays` are the new ones, `held` the copies that had to be made of tensors, or NULL. */
static inline PyObject *collect_results(const Results *results, PyObject *const *args,
                                        PyObject *const *arrays, PyObject *const *held) {
    PyObject *tuple = PyTuple_New(results->count);
    for (Py_ssize_t i = 0; tuple && i < results->count; i++) {
        const Result *result = &results->items[i];
        PyObject *object = result->kind == RESULT_NEW      ? arrays[result->position]
                           : result->kind == RESULT_OBJECT ? result->object
                                                           : args[result->position];
        if (result->kind == RESULT_WRITTEN && held[result->tensor]) object = held[result->tensor];
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(object));
    }
    return tuple;
}

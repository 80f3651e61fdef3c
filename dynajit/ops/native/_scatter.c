/* Sums of rows of matrices at computed places: numpy.add.at takes ten times as long.
 *
 * Contract: arrays are row-major, aligned and of one dtype (float32, float64 or int64), positions
 * are int64. Rows are added in the order of the positions and every product is rounded before it is
 * added, so results have the bits of numpy.add.at. True is the answer; False where a position lies
 * outside of its matrix, and then nothing is written. Called by `ops.rows.scatter_forms`.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <numpy/arrayobject.h>

#define ROWS_OF(name, type)                                                                         \
    static void add_##name(type *restrict target, const int64_t *places, const type *restrict rows,  \
                           int64_t count, int64_t width) {                                          \
        for (int64_t i = 0; i < count; i++) {                                                       \
            type *restrict sum = target + places[i] * width;                                        \
            const type *restrict row = rows + i * width;                                            \
            for (int64_t j = 0; j < width; j++) sum[j] += row[j];                                   \
        }                                                                                           \
    }                                                                                               \
    static void add_scaled_##name(type *restrict target, const int64_t *places,                     \
                                  const int64_t *chosen, const type *restrict factors,              \
                                  const type *restrict matrix, int64_t count, int64_t width) {      \
        for (int64_t i = 0; i < count; i++) {                                                       \
            type *restrict sum = target + places[i] * width;                                        \
            const type *restrict row = matrix + chosen[i] * width;                                  \
            const type factor = factors[i];                                                         \
            for (int64_t j = 0; j < width; j++) sum[j] += factor * row[j];                          \
        }                                                                                           \
    }

ROWS_OF(float32, float)
ROWS_OF(float64, double)
ROWS_OF(int64, uint64_t) /* integers wrap around */

/* One array among the arguments: row-major, of that rank. NULL with an exception otherwise. */
static PyArrayObject *array_of(PyObject *given, int rank, int type) {
    PyArrayObject *array = (PyArrayObject *)given;
    if (!PyArray_Check(given) || PyArray_TYPE(array) != type || PyArray_NDIM(array) != rank
        || !PyArray_ISCARRAY_RO(array)) {
        PyErr_SetString(PyExc_ValueError,
                        "rows: an array is not row-major, or not of the dtype and rank");
        return NULL;
    }
    return array;
}

/* As many positions as `count`, or NULL with an exception. */
static const int64_t *positions_of(PyObject *given, int64_t count) {
    PyArrayObject *array = array_of(given, 1, NPY_INT64);
    if (array != NULL && PyArray_SIZE(array) != count) {
        PyErr_SetString(PyExc_ValueError, "rows: wrong number of positions");
        return NULL;
    }
    return array == NULL ? NULL : PyArray_DATA(array);
}

static int are_below(const int64_t *positions, int64_t count, int64_t bound) {
    int is_outside = 0;
    for (int64_t i = 0; i < count; i++) is_outside |= (uint64_t)positions[i] >= (uint64_t)bound;
    return !is_outside;
}

/* The matrix that is added to, of a dtype that there are loops for. */
static PyArrayObject *target_of(PyObject *given) {
    const int type = PyArray_Check(given) ? PyArray_TYPE((PyArrayObject *)given) : NPY_VOID;
    if (type != NPY_FLOAT && type != NPY_DOUBLE && type != NPY_INT64) {
        PyErr_SetString(PyExc_ValueError, "rows: expected float32, float64 or int64");
        return NULL;
    }
    PyArrayObject *target = array_of(given, 2, type);
    if (target != NULL && !PyArray_ISWRITEABLE(target)) {
        PyErr_SetString(PyExc_ValueError, "rows: the target cannot be written");
        return NULL;
    }
    return target;
}

static PyObject *wrong_width(void) {
    PyErr_SetString(PyExc_ValueError, "rows: matrices of different widths");
    return NULL;
}

static PyObject *add_rows(PyObject *module, PyObject *const *given, Py_ssize_t arguments) {
    if (arguments != 3) {
        PyErr_SetString(PyExc_TypeError, "add_rows: expected 3 arguments");
        return NULL;
    }
    PyArrayObject *target = target_of(given[0]);
    if (target == NULL) return NULL;
    const int type = PyArray_TYPE(target);
    PyArrayObject *rows = array_of(given[2], 2, type);
    if (rows == NULL) return NULL;
    const int64_t count = PyArray_DIM(rows, 0), width = PyArray_DIM(rows, 1);
    if (PyArray_DIM(target, 1) != width) return wrong_width();
    const int64_t *places = positions_of(given[1], count);
    if (places == NULL) return NULL;
    if (!are_below(places, count, PyArray_DIM(target, 0))) Py_RETURN_FALSE;
    void *sums = PyArray_DATA(target);
    const void *added = PyArray_DATA(rows);
    Py_BEGIN_ALLOW_THREADS
    if (type == NPY_FLOAT) add_float32(sums, places, added, count, width);
    else if (type == NPY_DOUBLE) add_float64(sums, places, added, count, width);
    else add_int64(sums, places, added, count, width);
    Py_END_ALLOW_THREADS
    Py_RETURN_TRUE;
}

static PyObject *add_scaled_rows(PyObject *module, PyObject *const *given, Py_ssize_t arguments) {
    if (arguments != 5) {
        PyErr_SetString(PyExc_TypeError, "add_scaled_rows: expected 5 arguments");
        return NULL;
    }
    PyArrayObject *target = target_of(given[0]);
    if (target == NULL) return NULL;
    const int type = PyArray_TYPE(target);
    PyArrayObject *factors = array_of(given[3], 1, type);
    PyArrayObject *matrix = factors == NULL ? NULL : array_of(given[4], 2, type);
    if (matrix == NULL) return NULL;
    const int64_t count = PyArray_DIM(factors, 0), width = PyArray_DIM(matrix, 1);
    if (PyArray_DIM(target, 1) != width) return wrong_width();
    const int64_t *places = positions_of(given[1], count);
    const int64_t *chosen = places == NULL ? NULL : positions_of(given[2], count);
    if (chosen == NULL) return NULL;
    if (!are_below(places, count, PyArray_DIM(target, 0))
        || !are_below(chosen, count, PyArray_DIM(matrix, 0)))
        Py_RETURN_FALSE;
    void *sums = PyArray_DATA(target);
    const void *scales = PyArray_DATA(factors), *source = PyArray_DATA(matrix);
    Py_BEGIN_ALLOW_THREADS
    if (type == NPY_FLOAT)
        add_scaled_float32(sums, places, chosen, scales, source, count, width);
    else if (type == NPY_DOUBLE)
        add_scaled_float64(sums, places, chosen, scales, source, count, width);
    else
        add_scaled_int64(sums, places, chosen, scales, source, count, width);
    Py_END_ALLOW_THREADS
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"add_rows", (PyCFunction)(void (*)(void))add_rows, METH_FASTCALL,
     "add_rows(target, places, rows): target[places[i]] += rows[i], for each i in order."},
    {"add_scaled_rows", (PyCFunction)(void (*)(void))add_scaled_rows, METH_FASTCALL,
     "add_scaled_rows(target, places, chosen, factors, matrix): target[places[i]] += factors[i] *"
     " matrix[chosen[i]], for each i in order."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dynajit.ops.native._scatter", .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__scatter(void) {
    import_array();
    return PyModule_Create(&definition);
}

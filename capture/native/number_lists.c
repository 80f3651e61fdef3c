/* Lists of Python's numbers, and of such lists, as memory and back.
 *
 * Memory lies row by row and holds a double per float, two per complex number, an int64 per int and a
 * byte per bool. All numbers of a list are of one class, none of a class below it. Nothing here runs the program's
 * code but the ends of numbers that are replaced, which have none. */

#include "number_lists.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIMS 8

/* Bytes of a number in memory. */
static Py_ssize_t
size_of(const PyTypeObject *kind)
{
    return kind == &PyBool_Type ? 1 : kind == &PyComplex_Type ? 16 : 8;
}

/* Read all numbers of a list, and go on behind them: 1, 0 where there are others, -1: an error. */
static int
read_row(PyObject *list, char **memory, PyTypeObject *kind, const Py_ssize_t *shape, int rank)
{
    if (!PyList_CheckExact(list) || PyList_GET_SIZE(list) != shape[0]) {
        return 0;
    }
    char *to = *memory;
    for (Py_ssize_t i = 0; i < shape[0]; i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        if (rank > 1) {
            int found = read_row(item, &to, kind, shape + 1, rank - 1);
            if (found <= 0) {
                return found;
            }
            continue;
        }
        if (Py_TYPE(item) != kind) {
            return 0;
        }
        if (kind == &PyFloat_Type) {
            double number = PyFloat_AS_DOUBLE(item);
            memcpy(to, &number, sizeof number);
            to += sizeof number;
        }
        else if (kind == &PyComplex_Type) {
            double parts[2] = {PyComplex_RealAsDouble(item), PyComplex_ImagAsDouble(item)};
            memcpy(to, parts, sizeof parts);
            to += sizeof parts;
        }
        else if (kind == &PyBool_Type) {
            *to++ = item == Py_True;
        }
        else {
            int overflow;
            int64_t number = PyLong_AsLongLongAndOverflow(item, &overflow);
            if (overflow) {
                return 0;
            }
            memcpy(to, &number, sizeof number);
            to += sizeof number;
        }
    }
    *memory = to;
    return 1;
}

/* A new reference to the number that memory holds; NULL: `item` is that. */
static PyObject *
changed_number(PyObject *item, const char *from, PyTypeObject *kind)
{
    if (kind == &PyFloat_Type) {
        double number, before = PyFloat_AS_DOUBLE(item);
        memcpy(&number, from, sizeof number);
        return memcmp(&number, &before, sizeof number) ? PyFloat_FromDouble(number) : NULL;
    }
    if (kind == &PyComplex_Type) {
        double parts[2], before[2] = {PyComplex_RealAsDouble(item), PyComplex_ImagAsDouble(item)};
        memcpy(parts, from, sizeof parts);
        int is_same = !memcmp(parts, before, sizeof parts);
        return is_same ? NULL : PyComplex_FromDoubles(parts[0], parts[1]);
    }
    if (kind == &PyBool_Type) {
        PyObject *number = *from ? Py_True : Py_False;
        return number == item ? NULL : Py_NewRef(number);
    }
    int64_t number;
    memcpy(&number, from, sizeof number);
    int overflow;
    int64_t before = PyLong_AsLongLongAndOverflow(item, &overflow);
    return number == before ? NULL : PyLong_FromLongLong(number);
}

/* Write all numbers of a list that differ, and go on behind them; the result is as `read_row`'s. */
static int
write_row(PyObject *list, char **memory, PyTypeObject *kind, const Py_ssize_t *shape, int rank)
{
    if (!PyList_CheckExact(list) || PyList_GET_SIZE(list) != shape[0]) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < shape[0]; i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        if (rank > 1) {
            int found = write_row(item, memory, kind, shape + 1, rank - 1);
            if (found <= 0) {
                return found;
            }
            continue;
        }
        if (Py_TYPE(item) != kind) {
            return 0;
        }
        PyObject *number = changed_number(item, *memory, kind);
        if (number != NULL ? PyList_SetItem(list, i, number) < 0 : PyErr_Occurred() != NULL) {
            return -1;
        }
        *memory += size_of(kind);
    }
    return 1;
}

/* What reads or writes the numbers of a list and of lists in it. */
typedef int (*Row)(PyObject *, char **, PyTypeObject *, const Py_ssize_t *, int);

static PyObject *
with_memory(PyObject *const *arguments, Py_ssize_t count, Row run)
{
    if (count != 4 || !PyType_Check(arguments[2]) || !PyTuple_Check(arguments[3])
        || PyTuple_GET_SIZE(arguments[3]) > MOST_DIMS || !PyTuple_GET_SIZE(arguments[3])) {
        PyErr_SetString(PyExc_TypeError, "expected a list, memory, a class and a shape");
        return NULL;
    }
    Py_ssize_t shape[MOST_DIMS];
    int rank = (int)PyTuple_GET_SIZE(arguments[3]);
    Py_ssize_t size = size_of((PyTypeObject *)arguments[2]);
    for (int dim = 0; dim < rank; dim++) {
        shape[dim] = PyLong_AsSsize_t(PyTuple_GET_ITEM(arguments[3], dim));
        if (shape[dim] < 0) {
            return NULL;
        }
        size *= shape[dim];
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(arguments[1], &buffer, PyBUF_WRITABLE) < 0) {
        return NULL;
    }
    char *memory = buffer.buf;
    int found = 0;
    if (buffer.len == size) {
        found = run(arguments[0], &memory, (PyTypeObject *)arguments[2], shape, rank);
    }
    PyBuffer_Release(&buffer);
    return found < 0 ? NULL : PyBool_FromLong(found);
}

PyObject *
module_take_memory(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "expected an address and a size");
        return NULL;
    }
    void *memory = (void *)(intptr_t)PyLong_AsLongLong(arguments[0]);
    Py_ssize_t size = PyErr_Occurred() ? -1 : PyLong_AsSsize_t(arguments[1]);
    if (size < 0) {
        return NULL;
    }
    PyObject *found = PyByteArray_FromStringAndSize(memory, size);
    free(memory);
    return found;
}

PyObject *
module_read_numbers(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    return with_memory(arguments, count, read_row);
}

PyObject *
module_write_numbers(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    return with_memory(arguments, count, write_row);
}

/* Lists of Python's numbers, and of such lists, as memory and back. */
#ifndef DYNAJIT_CAPTURE_NUMBER_LISTS_H
#define DYNAJIT_CAPTURE_NUMBER_LISTS_H

#include "versions.h"

#pragma GCC visibility push(hidden)

/* read_numbers(list, memory, class, shape): see `capture.entry.list_programs`. */
PyObject *module_read_numbers(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

/* write_numbers(list, memory, class, shape): the numbers that differ. */
PyObject *module_write_numbers(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

/* take_memory(address, size): what a nest hands over, as bytes; the memory is freed. */
PyObject *module_take_memory(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#pragma GCC visibility pop

#endif

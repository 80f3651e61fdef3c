/* Functions of numbers for expressions of which a part is not asked for. */
#ifndef DYNAJIT_CAPTURE_NUMBER_CALLS_H
#define DYNAJIT_CAPTURE_NUMBER_CALLS_H

#include "versions.h"

#pragma GCC visibility push(hidden)

/* attempt(function, *numbers): what the function gives, or None where it raises. */
PyObject *module_attempt(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

/* choose(condition, a, b): `a if condition else b`. */
PyObject *module_choose(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#pragma GCC visibility pop

#endif

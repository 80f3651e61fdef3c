/* Keys and members stored under hashes that are known, without a call of __hash__ or __eq__. */
#ifndef DYNAJIT_CAPTURE_HASHED_H
#define DYNAJIT_CAPTURE_HASHED_H

#include "versions.h"

#pragma GCC visibility push(hidden)

/* Once, before any other function here. -1 with an exception. */
int start_hashed(void);

/* store_hashed(container, hashes, keys, values): see `capture/values/hashed.py`. */
PyObject *module_store_hashed(PyObject *module, PyObject *const *args, Py_ssize_t count);

#pragma GCC visibility pop

#endif

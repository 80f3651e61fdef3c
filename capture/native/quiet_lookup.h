/* Whether looking a key up in a dict calls `__eq__` methods of the user's. */
#ifndef DYNAJIT_CAPTURE_QUIET_LOOKUP_H
#define DYNAJIT_CAPTURE_QUIET_LOOKUP_H

#include "versions.h"

#pragma GCC visibility push(hidden)

/* False where another key with the same hash may have an `__eq__` in Python. */
int lookup_is_quiet(PyObject *dict, PyObject *key, Py_hash_t hash);

/* has_text_keys(dict) -> bool: every key is a str, and none ever was anything else. */
PyObject *module_has_text_keys(PyObject *module, PyObject *dict);

int start_quiet_lookup(void); /* 0, or -1 with an exception */

#pragma GCC visibility pop

#endif

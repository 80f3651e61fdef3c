/* What classes store and how they make instances, asked without any code of the user's. */
#ifndef DYNAJIT_CAPTURE_CLASS_LOOKUP_H
#define DYNAJIT_CAPTURE_CLASS_LOOKUP_H

#include "versions.h"

#pragma GCC visibility push(hidden)

/* class_member(class, name, default): what the first class of the MRO that has the name stores.
 * LookupError: a class before that has a key that is no string, whose __eq__ would be called. */
PyObject *module_class_member(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* makes_plainly(class) -> (is its tp_new, is its tp_init that of object?). The names in the class's
 * dict do not always tell. */
PyObject *module_makes_plainly(PyObject *module, PyObject *cls);

#pragma GCC visibility pop

#endif

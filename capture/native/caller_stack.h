/* The arguments of a call where the interpreter keeps them: on the stack of the calling frame.
 *
 * Contract. Neither function runs user code but what the end of an object runs.
 */
#ifndef DYNAJIT_CAPTURE_CALLER_STACK_H
#define DYNAJIT_CAPTURE_CALLER_STACK_H

#include "versions.h"

/* Let go of the arguments of a call that the calling frame holds and nobody needs any more: they
 * are None from now on. `frame` is what the call runs; `held` are the arguments as it got them. */
void release_on_stack(_PyInterpreterFrame *frame, PyObject *callable, PyObject **held,
                      Py_ssize_t count);

/* Let go of what an array holds: None from now on. */
void release_all(PyObject **held, Py_ssize_t count);

/* Whether the innermost frame handed an object over without a reference of its own: one of its
 * locals keeps it. */
int is_lent_by_caller(PyObject *object);

#endif

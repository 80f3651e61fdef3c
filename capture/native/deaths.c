/* Weak references of guards, and the count of classes and functions that have died.
 *
 * Contract. A guard keeps nothing of the user's alive. A snapshot need not look at each class
 * and each function that it relies on: while the count of deaths stays, all of them live. The interpreter counts through
 * the callback of the references, except for those that are garbage together with what they
 * refer to; guards that are garbage forget their snapshot for that reason (guards_finalize).
 */
#include "guards.h"

static uint64_t deaths;

const uint64_t *
death_count(void)
{
    return &deaths;
}

static PyObject *
note_death(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(reference))
{
    deaths++;
    Py_RETURN_NONE;
}

static PyMethodDef note_death_definition = {"note_death", note_death, METH_O, NULL};
static PyObject *callback; /* note_death, made when it is needed first */

int
is_held_weakly(PyObject *object)
{
    if (PyType_Check(object)) {
        return PyType_HasFeature((PyTypeObject *)object, Py_TPFLAGS_HEAPTYPE);
    }
    return !PyCode_Check(object) && PyType_SUPPORTS_WEAKREFS(Py_TYPE(object));
}

int
counts_death(PyObject *reference)
{
    return callback != NULL && ((PyWeakReference *)reference)->wr_callback == callback;
}

PyObject *
refer_weakly(PyObject *object, int is_constant)
{
    PyWeakReference *known;
    if (PyType_Check(object)) {
        known = (PyWeakReference *)((PyTypeObject *)object)->tp_weaklist;
    }
    else if (is_constant && PyFunction_Check(object)) {
        known = (PyWeakReference *)((PyFunctionObject *)object)->func_weakreflist;
    }
    else {
        return PyWeakref_NewRef(object, NULL);
    }
    if (callback == NULL && (callback = PyCFunction_New(&note_death_definition, NULL)) == NULL) {
        return NULL;
    }
    for (; known != NULL; known = known->wr_next) {
        if (known->wr_callback == callback && Py_REFCNT(known) > 0) {
            return Py_NewRef(known); /* one for all guards */
        }
    }
    return PyWeakref_NewRef(object, callback);
}

/* Whether anybody can tell that an object ends: finalizers, callbacks of weak references, suspended
 * generators, in the object itself and in everything that it alone keeps alive.
 *
 * Contract. No user code runs. What others hold, too, does not end. Of very large objects only the
 * beginning is looked at.
 */
#include "guards.h"

/* Objects that are looked at: a configuration is smaller, and a model has got other holders. */
#define MOST_OBJECTS 1000

typedef struct {
    int count;
    Py_ssize_t held; /* references to what the present object refers to that do not count */
} Walk;

static int ends_loudly(PyObject *object, Py_ssize_t held_below, int *count);

static int
has_listener(PyObject *object)
{
    if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
        return 0;
    }
    PyWeakReference *reference = (PyWeakReference *)*PyObject_GET_WEAKREFS_LISTPTR(object);
    for (; reference != NULL; reference = reference->wr_next) {
        if (reference->wr_callback != NULL || PyWeakref_CheckProxy((PyObject *)reference)) {
            return 1; /* a proxy answers for the object */
        }
    }
    return 0;
}

/* A generator that was started may have something to do. */
static int
is_suspended(PyObject *generator)
{
    PyObject *suspended = PyObject_GetAttrString(generator, "gi_suspended");
    int answer = suspended != Py_False;
    Py_XDECREF(suspended);
    PyErr_Clear();
    return answer;
}

static int
visit(PyObject *object, void *data)
{
    Walk *walk = data;
    return Py_REFCNT(object) <= walk->held && ends_loudly(object, 1, &walk->count);
}

static int
ends_loudly(PyObject *object, Py_ssize_t held_below, int *count)
{
    PyTypeObject *type = Py_TYPE(object);
    if (is_tensor(object) || PyType_Check(object) || PyFunction_Check(object)
        || PyModule_Check(object) || PyCode_Check(object) || ++*count > MOST_OBJECTS) {
        return 0;
    }
    int has_finalizer = type->tp_finalize != NULL || type->tp_del != NULL;
    if (PyGen_CheckExact(object) ? is_suspended(object) : has_finalizer) {
        return 1;
    }
    if (has_listener(object)) {
        return 1;
    }
    if (!PyObject_IS_GC(object) || type->tp_traverse == NULL) {
        return 0;
    }
    Walk walk = {*count, held_below};
    int found = type->tp_traverse(object, visit, &walk);
    *count = walk.count;
    return found;
}

int
ends_quietly(PyObject *object, int is_fresh)
{
    int count = 0; /* what is in a tuple of *args is also held by the caller */
    return !ends_loudly(object, is_fresh ? 2 : 1, &count);
}

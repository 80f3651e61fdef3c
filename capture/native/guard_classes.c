/* What a class does: the methods, descriptors and special names of it and of its bases.
 *
 * Contract. While the version tag of a class stays, nothing about it has changed. Where the tag
 * differs, the dicts of the mutable classes of its MRO are compared with what they held: other
 * data in them (counters, lists, tensors) is guarded where it is read, and may change. Keys are
 * found by their stored hash and values compared by identity: no user code runs.
 */
#include "guards.h"

struct ClassSpec {
    unsigned int tag;  /* at which the class was found unchanged last; 0: none */
    PyObject *mro;     /* owned tuple */
    PyObject *members; /* owned tuple: per class of the MRO a dict from names to members, or None */
};

/* Caches that the standard library stores in classes. */
static const char *const cache_names[] = {"__slotnames__", "__annotations_cache__"};

static int
is_special(PyObject *name)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(name);
    if (length < 5 || PyUnicode_READ_CHAR(name, 0) != '_' || PyUnicode_READ_CHAR(name, 1) != '_'
        || PyUnicode_READ_CHAR(name, length - 1) != '_'
        || PyUnicode_READ_CHAR(name, length - 2) != '_') {
        return 0;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(cache_names); i++) {
        if (PyUnicode_CompareWithASCIIString(name, cache_names[i]) == 0) {
            return 0;
        }
    }
    return 1;
}

/* Does the entry decide what instances or the class do? */
static int
is_member(PyObject *name, PyObject *value)
{
    PyTypeObject *kind = Py_TYPE(value);
    return kind->tp_descr_get != NULL || kind->tp_descr_set != NULL
           || (PyUnicode_CheckExact(name) && is_special(name));
}

static int
is_mutable(PyObject *cls)
{
    return PyType_Check(cls) && !(((PyTypeObject *)cls)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)
           && ((PyTypeObject *)cls)->tp_dict != NULL;
}

/* The version tag, given one where it has none; 0: it cannot have one. */
unsigned int
class_tag(PyTypeObject *type)
{
    if (type->tp_version_tag == 0) {
        _PyType_Lookup(type, name_grad); /* looking up any name assigns one */
    }
    return type->tp_version_tag;
}

static PyObject *
members_of(PyObject *cls)
{
    if (!is_mutable(cls)) {
        return Py_NewRef(Py_None);
    }
    PyObject *members = PyDict_New(), *name, *value;
    Py_ssize_t position = 0;
    while (members != NULL
           && PyDict_Next(((PyTypeObject *)cls)->tp_dict, &position, &name, &value)) {
        if (PyUnicode_CheckExact(name) && is_member(name, value)
            && PyDict_SetItem(members, name, value) < 0) {
            Py_CLEAR(members);
        }
    }
    return members;
}

ClassSpec *
build_class_spec(PyObject *expected)
{
    if (!PyType_Check(expected) || ((PyTypeObject *)expected)->tp_mro == NULL) {
        PyErr_SetString(PyExc_TypeError, "CLASS_UNCHANGED guard: expected a class");
        return NULL;
    }
    PyObject *mro = ((PyTypeObject *)expected)->tp_mro;
    ClassSpec *spec = PyMem_Calloc(1, sizeof(ClassSpec));
    if (spec == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    spec->mro = Py_NewRef(mro);
    spec->members = PyTuple_New(PyTuple_GET_SIZE(mro));
    for (Py_ssize_t i = 0; spec->members != NULL && i < PyTuple_GET_SIZE(mro); i++) {
        PyObject *members = members_of(PyTuple_GET_ITEM(mro, i));
        if (members == NULL) {
            break;
        }
        PyTuple_SET_ITEM(spec->members, i, members);
    }
    if (PyErr_Occurred()) {
        free_class_spec(spec);
        return NULL;
    }
    spec->tag = class_tag((PyTypeObject *)expected);
    return spec;
}

void
free_class_spec(ClassSpec *spec)
{
    if (spec != NULL) {
        Py_XDECREF(spec->mro);
        Py_XDECREF(spec->members);
        PyMem_Free(spec);
    }
}

int
visit_class_spec(ClassSpec *spec, visitproc visit, void *arg)
{
    Py_VISIT(spec->mro);
    Py_VISIT(spec->members);
    return 0;
}

/* A name that the class holds and `members` does not, or another value of it. */
static PyObject *
first_new(PyObject *members, PyObject *held, Py_ssize_t *count)
{
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(held, &position, &name, &value)) {
        if (!is_member(name, value)) {
            continue;
        }
        ++*count;
        if (!PyUnicode_CheckExact(name)
            || dict_get(members, name, ((PyASCIIObject *)name)->hash) != value) {
            return name;
        }
    }
    return NULL;
}

/* A name of `members` that is no member of the class any more. */
static PyObject *
first_removed(PyObject *members, PyObject *held)
{
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(members, &position, &name, &value)) {
        if (dict_get(held, name, ((PyASCIIObject *)name)->hash) != value) {
            return name;
        }
    }
    return NULL;
}

static int
fail(Guards *self, PyObject *cls, PyObject *name, const char *change)
{
    self->failed_class = (ClassChange){cls, name, change};
    return 0;
}

static int
compare_class(Guards *self, const ClassSpec *spec, PyTypeObject *type)
{
    PyObject *mro = type->tp_mro;
    Py_ssize_t size = PyTuple_GET_SIZE(spec->mro);
    if (mro == NULL || PyTuple_GET_SIZE(mro) != size) {
        return fail(self, (PyObject *)type, name_bases, "replaced");
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        if (PyTuple_GET_ITEM(mro, i) != PyTuple_GET_ITEM(spec->mro, i)) {
            return fail(self, (PyObject *)type, name_bases, "replaced");
        }
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *members = PyTuple_GET_ITEM(spec->members, i), *cls = PyTuple_GET_ITEM(mro, i);
        if (members == Py_None) {
            continue;
        }
        PyObject *held = ((PyTypeObject *)cls)->tp_dict;
        Py_ssize_t count = 0;
        PyObject *name = first_new(members, held, &count);
        if (name != NULL) {
            int is_known = PyUnicode_CheckExact(name)
                           && dict_get(members, name, ((PyASCIIObject *)name)->hash) != NULL;
            return fail(self, cls, name, is_known ? "replaced" : "added");
        }
        if (count != PyDict_GET_SIZE(members)) {
            return fail(self, cls, first_removed(members, held), "removed");
        }
    }
    return 1;
}

int
is_class_unchanged(Guards *self, ClassSpec *spec, PyObject *cls)
{
    PyTypeObject *type = (PyTypeObject *)cls; /* the node's constant */
    if (spec->tag != 0 && spec->tag == type->tp_version_tag) {
        return 1;
    }
    if (!compare_class(self, spec, type)) {
        return 0;
    }
    spec->tag = class_tag(type);
    return 1;
}

/* What a class does: the methods, descriptors and special names of it and of its bases.
 *
 * Contract. While the version tag of a class stays, nothing about it has changed. Where the tag
 * differs, the dicts of the mutable classes of its MRO are compared with what they held: other
 * data in them (counters, lists, tensors) is guarded where it is read, and may change. Keys are
 * found by their stored hash and values compared by identity: no user code runs.
 *
 * Functions in a class are referred to weakly: one that is deleted ends. What has no weak references
 * (members of slots, class methods) often refers back to the class, so that a guard that owned it
 * would keep the class alive. The class itself owns it, in a field that the interpreter visits and
 * frees, but does not use.
 */
#include "guards.h"

struct ClassSpec {
    unsigned int tag;    /* at which the class was found unchanged last; 0: none */
    PyObject *reference; /* owned: to the class; NULL: the spec owns `held` */
    PyObject *number;    /* owned: under which the class keeps `held` */
    PyObject *held;      /* (MRO, members): per class of the MRO a dict from names to members, or
                          * None; borrowed from the class while that lives */
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

/* A weak reference, or a tuple of the value. */
static PyObject *
remember(PyObject *value)
{
    return is_held_weakly(value) ? refer_weakly(value, 0) : PyTuple_Pack(1, value);
}

/* What was remembered under a name; NULL: nothing, or it has died. Borrowed. */
static PyObject *
remembered_member(PyObject *members, PyObject *name)
{
    PyObject *found = dict_get(members, name, ((PyASCIIObject *)name)->hash);
    if (found == NULL) {
        return NULL;
    }
    return PyTuple_CheckExact(found) ? PyTuple_GET_ITEM(found, 0) : weak_target(found);
}

static int
add_member(PyObject *members, PyObject *name, PyObject *value)
{
    PyObject *remembered = remember(value);
    int status = remembered == NULL ? -1 : PyDict_SetItem(members, name, remembered);
    Py_XDECREF(remembered);
    return status;
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
            && add_member(members, name, value) < 0) {
            Py_CLEAR(members);
        }
    }
    return members;
}

static PyObject *
held_of(PyTypeObject *type)
{
    PyObject *mro = type->tp_mro, *held = PyTuple_New(PyTuple_GET_SIZE(mro));
    for (Py_ssize_t i = 0; held != NULL && i < PyTuple_GET_SIZE(mro); i++) {
        PyObject *members = members_of(PyTuple_GET_ITEM(mro, i));
        if (members == NULL) {
            Py_CLEAR(held);
            break;
        }
        PyTuple_SET_ITEM(held, i, members);
    }
    return held == NULL ? NULL : Py_BuildValue("ON", mro, held);
}

/* The class takes over what the spec holds, unless its field is in use or it lives forever. */
static int
give_to_class(ClassSpec *spec, PyTypeObject *type)
{
    static unsigned long long last = 0;
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)
        || (type->tp_cache != NULL && !PyDict_CheckExact(type->tp_cache))) {
        return 0;
    }
    if (type->tp_cache == NULL && (type->tp_cache = PyDict_New()) == NULL) {
        return -1;
    }
    spec->number = PyLong_FromUnsignedLongLong(++last);
    spec->reference = refer_weakly((PyObject *)type, 0);
    if (spec->number == NULL || spec->reference == NULL
        || PyDict_SetItem(type->tp_cache, spec->number, spec->held) < 0) {
        Py_CLEAR(spec->reference);
        return -1;
    }
    Py_DECREF(spec->held);
    return 0;
}

ClassSpec *
build_class_spec(PyObject *expected)
{
    if (!PyType_Check(expected) || ((PyTypeObject *)expected)->tp_mro == NULL) {
        PyErr_SetString(PyExc_TypeError, "CLASS_UNCHANGED guard: expected a class");
        return NULL;
    }
    ClassSpec *spec = PyMem_Calloc(1, sizeof(ClassSpec));
    if (spec == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    spec->held = held_of((PyTypeObject *)expected);
    if (spec->held == NULL || give_to_class(spec, (PyTypeObject *)expected) < 0) {
        free_class_spec(spec);
        return NULL;
    }
    spec->tag = class_tag((PyTypeObject *)expected);
    return spec;
}

void
free_class_spec(ClassSpec *spec)
{
    if (spec == NULL) {
        return;
    }
    if (spec->reference == NULL) {
        Py_XDECREF(spec->held);
    }
    else {
        PyTypeObject *type = (PyTypeObject *)weak_target(spec->reference);
        if (type != NULL && type->tp_cache != NULL) {
            Py_INCREF(type);
            if (PyDict_DelItem(type->tp_cache, spec->number) < 0) {
                PyErr_Clear();
            }
            Py_DECREF(type);
        }
        Py_DECREF(spec->reference);
    }
    Py_XDECREF(spec->number);
    PyMem_Free(spec);
}

int
visit_class_spec(ClassSpec *spec, visitproc visit, void *arg)
{
    if (spec->reference == NULL) {
        Py_VISIT(spec->held);
    }
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
            || remembered_member(members, name) != value) {
            return name;
        }
    }
    return NULL;
}

/* A name of `members` that is no member of the class any more. */
static PyObject *
first_removed(PyObject *members, PyObject *held)
{
    PyObject *name;
    Py_ssize_t position = 0;
    while (PyDict_Next(members, &position, &name, NULL)) {
        PyObject *value = remembered_member(members, name);
        if (value == NULL || dict_get(held, name, ((PyASCIIObject *)name)->hash) != value) {
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
    PyObject *mro = type->tp_mro, *old_mro = PyTuple_GET_ITEM(spec->held, 0);
    PyObject *old_members = PyTuple_GET_ITEM(spec->held, 1);
    Py_ssize_t size = PyTuple_GET_SIZE(old_mro);
    if (mro == NULL || PyTuple_GET_SIZE(mro) != size) {
        return fail(self, (PyObject *)type, name_bases, "replaced");
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        if (PyTuple_GET_ITEM(mro, i) != PyTuple_GET_ITEM(old_mro, i)) {
            return fail(self, (PyObject *)type, name_bases, "replaced");
        }
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *members = PyTuple_GET_ITEM(old_members, i), *cls = PyTuple_GET_ITEM(mro, i);
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
    PyTypeObject *type = (PyTypeObject *)cls;
    if (spec->reference != NULL && weak_target(spec->reference) != cls) {
        return fail(self, cls, name_bases, "replaced");
    }
    if (spec->tag != 0 && spec->tag == type->tp_version_tag) {
        return 1;
    }
    if (!compare_class(self, spec, type)) {
        return 0;
    }
    spec->tag = class_tag(type);
    return 1;
}

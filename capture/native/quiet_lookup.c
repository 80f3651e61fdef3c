/* See quiet_lookup.h. */
#include "quiet_lookup.h"

static PyObject *name_eq;

/* Nested deeper than this, a tuple counts as one that asks. */
enum { DEEPEST = 20 };

static int
asks_user_code(PyObject *key, int depth)
{
    PyTypeObject *type = Py_TYPE(key);
    if (type == &PyUnicode_Type || type == &PyLong_Type) {
        return 0;
    }
    PyObject *equal = type->tp_flags & Py_TPFLAGS_HEAPTYPE ? _PyType_Lookup(type, name_eq) : NULL;
    if ((equal != NULL && PyFunction_Check(equal)) || depth > DEEPEST) {
        return 1;
    }
    if (PyTuple_Check(key)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
            if (asks_user_code(PyTuple_GET_ITEM(key, i), depth + 1)) {
                return 1;
            }
        }
    }
    if (PyFrozenSet_Check(key)) {
        PySetObject *set = (PySetObject *)key;
        for (Py_ssize_t i = 0; i <= set->mask; i++) {
            if (set->table[i].key != NULL && asks_user_code(set->table[i].key, depth + 1)) {
                return 1;
            }
        }
    }
    return 0;
}

/* Source: CPython 3.11, dictobject.c: dictkeys_get_index. */
static Py_ssize_t
entry_at(PyDictKeysObject *keys, size_t place)
{
    int log = DK_LOG_SIZE(keys);
    if (log < 8) {
        return ((int8_t *)keys->dk_indices)[place];
    }
    if (log < 16) {
        return ((int16_t *)keys->dk_indices)[place];
    }
    return log < 32 ? ((int32_t *)keys->dk_indices)[place] : ((int64_t *)keys->dk_indices)[place];
}

int
lookup_is_quiet(PyObject *dict, PyObject *key, Py_hash_t hash)
{
    PyDictKeysObject *keys = ((PyDictObject *)dict)->ma_keys;
    if (DK_IS_UNICODE(keys)) {
        return 1;
    }
    /* The order in which a dict looks at its places. Source: CPython 3.11, dictobject.c. */
    size_t mask = ((size_t)1 << DK_LOG_SIZE(keys)) - 1, perturb = (size_t)hash, place = perturb & mask;
    for (;;) {
        Py_ssize_t index = entry_at(keys, place);
        if (index == -1) { /* never used */
            return 1;
        }
        if (index >= 0) {
            PyDictKeyEntry *entry = &DK_ENTRIES(keys)[index];
            if (entry->me_key == key) {
                return 1;
            }
            if (entry->me_hash == hash && asks_user_code(entry->me_key, 0)) {
                return 0;
            }
        }
        perturb >>= 5; /* CPython's PERTURB_SHIFT */
        place = (place * 5 + perturb + 1) & mask;
    }
}

PyObject *
module_has_text_keys(PyObject *module, PyObject *dict)
{
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "has_text_keys: expected a dict");
        return NULL;
    }
    return PyBool_FromLong(DK_IS_UNICODE(((PyDictObject *)dict)->ma_keys));
}

int
start_quiet_lookup(void)
{
    name_eq = PyUnicode_InternFromString("__eq__");
    return name_eq == NULL ? -1 : 0;
}

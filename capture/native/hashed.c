/* See hashed.h.
 *
 * A stand-in of a class of our own is stored in the place of each key: it has the key's hash and
 * equals nothing. When all are stored, the keys take the places of their stand-ins. A dict or set
 * looks at the stored hashes from then on.
 */
#include "hashed.h"

typedef struct {
    PyObject_HEAD
    PyObject *key;
    Py_hash_t hash;
} StandIn;

static Py_hash_t
stand_in_hash(PyObject *self)
{
    return ((StandIn *)self)->hash;
}

static void
stand_in_dealloc(PyObject *self)
{
    Py_XDECREF(((StandIn *)self)->key);
    PyObject_Free(self);
}

static PyTypeObject stand_in_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.capture._capture.StandIn",
    .tp_basicsize = sizeof(StandIn),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_hash = stand_in_hash,
    .tp_dealloc = stand_in_dealloc,
};

int
start_hashed(void)
{
    return PyType_Ready(&stand_in_type);
}

/* New reference: what is stored for `key`; the key itself where `hash` is None. */
static PyObject *
stored_for(PyObject *key, PyObject *hash)
{
    if (hash == Py_None) {
        return Py_NewRef(key);
    }
    Py_ssize_t number = PyLong_AsSsize_t(hash);
    if (number == -1 && PyErr_Occurred()) {
        return NULL;
    }
    StandIn *made = PyObject_New(StandIn, &stand_in_type);
    if (made != NULL) {
        made->key = Py_NewRef(key);
        made->hash = number;
    }
    return (PyObject *)made;
}

static void
replace(PyObject **place)
{
    if (*place != NULL && Py_IS_TYPE(*place, &stand_in_type)) {
        PyObject *stand_in = *place;
        *place = Py_NewRef(((StandIn *)stand_in)->key);
        Py_DECREF(stand_in);
    }
}

static void
replace_in_dict(PyObject *dict)
{
    PyDictKeysObject *keys = ((PyDictObject *)dict)->ma_keys;
    if (DK_IS_UNICODE(keys)) {
        return; /* no stand-in was stored: it would have made the table a general one */
    }
    PyDictKeyEntry *entries = DK_ENTRIES(keys);
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        replace(&entries[i].me_key);
    }
    if (!PyObject_GC_IsTracked(dict)) {
        PyObject_GC_Track(dict); /* a stand-in is no reason to track a dict, a key may be one */
    }
}

static void
replace_in_set(PyObject *set)
{
    PySetObject *so = (PySetObject *)set;
    for (Py_ssize_t i = 0; i <= so->mask; i++) {
        replace(&so->table[i].key);
    }
}

PyObject *
module_store_hashed(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 4 || !(PyDict_Check(args[0]) || PySet_Check(args[0])) ||
        !PyTuple_Check(args[1]) || !PyTuple_Check(args[2]) || !PyTuple_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "store_hashed(dict or set, hashes, keys, values)");
        return NULL;
    }
    PyObject *container = args[0];
    int is_dict = PyDict_Check(container);
    Py_ssize_t size = PyTuple_GET_SIZE(args[1]);
    if (PyTuple_GET_SIZE(args[2]) != size || (is_dict && PyTuple_GET_SIZE(args[3]) != size)) {
        PyErr_SetString(PyExc_ValueError, "store_hashed(): lengths differ");
        return NULL;
    }
    int failed = 0;
    for (Py_ssize_t i = 0; i < size && !failed; i++) {
        PyObject *key = stored_for(PyTuple_GET_ITEM(args[2], i), PyTuple_GET_ITEM(args[1], i));
        if (key == NULL) {
            failed = 1;
            break;
        }
        failed = (is_dict ? PyDict_SetItem(container, key, PyTuple_GET_ITEM(args[3], i))
                          : PySet_Add(container, key)) < 0;
        Py_DECREF(key);
    }
    if (is_dict) {
        replace_in_dict(container);
    } else {
        replace_in_set(container);
    }
    if (failed) {
        return NULL;
    }
    Py_RETURN_NONE;
}

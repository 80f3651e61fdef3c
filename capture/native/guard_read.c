/* How guards read: constants compared, attributes, keys and items found, without user code. */
#include "guards.h"

static int
float_equal(double a, double b)
{
    if (a != a) {
        return b != b;
    }
    return memcmp(&a, &b, sizeof a) == 0;
}

/* Exact type and value; NaN equals NaN, 0.0 and -0.0 differ. No user code. */
int
constant_equal(PyObject *a, PyObject *b)
{
    if (a == b) {
        return 1;
    }
    PyTypeObject *type = Py_TYPE(a);
    if (type != Py_TYPE(b)) {
        return 0;
    }
    if (type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBytes_Type) {
        return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
    }
    if (type == &PyFloat_Type) {
        return float_equal(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
    }
    if (type == &PyComplex_Type) {
        Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
        return float_equal(x.real, y.real) && float_equal(x.imag, y.imag);
    }
    if (type == &PyTuple_Type && PyTuple_GET_SIZE(a) == PyTuple_GET_SIZE(b)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
            if (!constant_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) {
                return 0;
            }
        }
        return 1;
    }
    return 0;
}

/* Is `value`, an instance of a class derived from that of `expected`, the same by the rules of the
 * built-in class? No method of the derived class is asked. */
int
storage_equal(PyObject *value, PyObject *expected)
{
    PyTypeObject *type = Py_TYPE(expected);
    if (!PyType_IsSubtype(Py_TYPE(value), type)) {
        return 0;
    }
    if (type == &PyFloat_Type) {
        return float_equal(PyFloat_AS_DOUBLE(value), PyFloat_AS_DOUBLE(expected));
    }
    if (type == &PyComplex_Type) {
        Py_complex x = ((PyComplexObject *)value)->cval, y = PyComplex_AsCComplex(expected);
        return float_equal(x.real, y.real) && float_equal(x.imag, y.imag);
    }
    PyObject *result = type->tp_richcompare(value, expected, Py_EQ);
    if (result == NULL) {
        PyErr_Clear();
        return 0;
    }
    Py_DECREF(result);
    return result == Py_True;
}

/* Borrowed value of a key, or NULL without an exception, also where user code would be asked. */
PyObject *
dict_get(PyObject *dict, PyObject *key, Py_hash_t hash)
{
    if (!lookup_is_quiet(dict, key, hash)) {
        return NULL;
    }
    PyObject *value = _PyDict_GetItem_KnownHash(dict, key, hash);
    if (value == NULL && PyErr_Occurred()) {
        PyErr_Clear();
    }
    return value;
}

/* Index of `name` in the shared keys of the class, or -1. */
Py_ssize_t
shared_key_index(PyTypeObject *type, PyObject *name)
{
    PyDictKeysObject *keys = ((PyHeapTypeObject *)type)->ht_cached_keys;
    if (keys == NULL || keys->dk_kind == DICT_KEYS_GENERAL) {
        return -1;
    }
    PyDictUnicodeEntry *entries = DK_UNICODE_ENTRIES(keys);
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        if (entries[i].me_key == name) {
            return i;
        }
    }
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        if (entries[i].me_key != NULL && PyUnicode_Compare(entries[i].me_key, name) == 0) {
            return i;
        }
    }
    return -1;
}

Storage
storage_of(PyObject *object)
{
    Storage storage = {NULL, NULL, NULL};
    PyTypeObject *type = Py_TYPE(object);
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        storage.values = inline_values(object);
        if (storage.values == NULL) {
            storage.address = managed_dict_address(object);
            storage.dict = managed_dict(object);
        }
    }
    else if (type->tp_dictoffset > 0) {
        storage.address = (PyObject **)((char *)object + type->tp_dictoffset);
        storage.dict = *storage.address;
    }
    else if (type->tp_dictoffset < 0) {
        storage.address = _PyObject_GetDictPtr(object);
        storage.dict = storage.address == NULL ? NULL : *storage.address;
    }
    return storage;
}

/* Borrowed value of an instance attribute, or NULL. `slot` caches the inline-value index. */
PyObject *
instance_get(PyObject *object, PyObject *name, Py_hash_t hash, Py_ssize_t *slot)
{
    Storage storage = storage_of(object);
    if (storage.values != NULL) {
        PyDictKeysObject *keys = ((PyHeapTypeObject *)Py_TYPE(object))->ht_cached_keys;
        Py_ssize_t i = *slot;
        if (i < 0 || i >= keys->dk_nentries || DK_UNICODE_ENTRIES(keys)[i].me_key != name) {
            i = *slot = shared_key_index(Py_TYPE(object), name);
        }
        return i < 0 ? NULL : storage.values->values[i];
    }
    return storage.dict == NULL ? NULL : dict_get(storage.dict, name, hash);
}

/* True if attribute access on instances of `type` first follows the ordinary rules. */
int
reads_ordinarily(PyTypeObject *type)
{
    if (type->tp_getattro == PyObject_GenericGetAttr
        || type->tp_getattro == PyModule_Type.tp_getattro) {
        return 1;
    }
    PyObject *found = _PyType_Lookup(type, name_getattribute);
    if (found == NULL || !Py_IS_TYPE(found, &PyWrapperDescr_Type)) {
        return 0;
    }
    void *reader = ((PyWrapperDescrObject *)found)->d_wrapped; /* dict has a wrapper of its own */
    return reader == (void *)PyObject_GenericGetAttr
           || reader == (void *)PyModule_Type.tp_getattro;
}

static PyObject *
member_get(PyObject *object, PyObject *descriptor)
{
    PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
    if (!PyObject_TypeCheck(object, ((PyDescrObject *)descriptor)->d_type)) {
        return NULL;
    }
    if (member->type != T_OBJECT && member->type != T_OBJECT_EX) {
        return NULL;
    }
    PyObject *value = *(PyObject **)((char *)object + member->offset);
    if (value == NULL && member->type == T_OBJECT) {
        return Py_None;
    }
    return value;
}

/* What the class stores under the node's name (borrowed or NULL); -1: access is not ordinary. */
int
class_lookup(Node *node, PyTypeObject *type, PyObject **descriptor)
{
    if (node->cached_type == type && node->cached_tag != 0
        && node->cached_tag == type->tp_version_tag) {
        *descriptor = node->cached_descriptor;
        return 0;
    }
    if (!reads_ordinarily(type)) {
        return -1;
    }
    *descriptor = _PyType_Lookup(type, node->argument);
    node->cached_type = type;
    node->cached_tag = type->tp_version_tag;
    node->cached_descriptor = *descriptor;
    return 0;
}

/* True if the metaclass reads attributes as `type` does; `__getattr__` is for those not found. */
static int
reads_as_class(PyTypeObject *meta)
{
    if (meta->tp_getattro == PyType_Type.tp_getattro) {
        return 1;
    }
    PyObject *found = _PyType_Lookup(meta, name_getattribute);
    return found != NULL && Py_IS_TYPE(found, &PyWrapperDescr_Type)
           && ((PyWrapperDescrObject *)found)->d_wrapped == (void *)PyType_Type.tp_getattro;
}

/* An attribute of a class: first in its MRO that does not bind. */
static PyObject *
read_class(PyTypeObject *class, PyObject *name)
{
    PyObject *meta = _PyType_Lookup(Py_TYPE(class), name);
    if (meta != NULL && Py_TYPE(meta)->tp_descr_set != NULL) {
        return NULL;
    }
    if (!reads_as_class(Py_TYPE(class))) {
        return NULL;
    }
    PyObject *value = _PyType_Lookup(class, name);
    if (value == NULL || PyFunction_Check(value) || Py_TYPE(value)->tp_descr_get == NULL) {
        return value;
    }
    return NULL;
}

PyObject *
read_attribute(Node *node, PyObject *object)
{
    if (PyType_Check(object)) {
        return read_class((PyTypeObject *)object, node->argument);
    }
    PyObject *descriptor;
    if (class_lookup(node, Py_TYPE(object), &descriptor) < 0) {
        return NULL;
    }
    if (descriptor != NULL && Py_TYPE(descriptor)->tp_descr_set != NULL) {
        if (Py_TYPE(descriptor) == &PyMemberDescr_Type) {
            return member_get(object, descriptor);
        }
        if (node->argument == name_grad && is_tensor(object)
            && Py_TYPE(descriptor) == &PyGetSetDescr_Type) {
            PyObject *grad = ((TensorObject *)object)->grad;
            return grad == NULL ? Py_None : grad;
        }
        if (node->argument == name_hooks && is_tensor(object)
            && Py_TYPE(descriptor) == &PyGetSetDescr_Type) {
            PyObject *hooks = ((TensorObject *)object)->hooks;
            return hooks == NULL ? Py_None : hooks;
        }
        return NULL;
    }
    PyObject *value = instance_get(object, node->argument, node->hash, &node->cached_slot);
    if (value != NULL) {
        return value;
    }
    if (descriptor != NULL && Py_TYPE(descriptor)->tp_descr_get == NULL) {
        return descriptor;
    }
    return NULL;
}

static PyObject *
read_default(PyObject *object, Py_ssize_t index)
{
    PyObject *defaults = ((PyFunctionObject *)object)->func_defaults;
    if (defaults == NULL || index >= PyTuple_GET_SIZE(defaults)) {
        return NULL;
    }
    return PyTuple_GET_ITEM(defaults, index);
}

PyObject *
read_closure_cell(PyObject *object, Py_ssize_t index)
{
    PyObject *closure = ((PyFunctionObject *)object)->func_closure;
    if (closure == NULL || index >= PyTuple_GET_SIZE(closure)) {
        return NULL;
    }
    return PyTuple_GET_ITEM(closure, index);
}

static PyObject *
read_builtin(Node *node, PyObject *object)
{
    PyFunctionObject *function = (PyFunctionObject *)object;
    if (dict_get(function->func_globals, node->argument, node->hash) != NULL
        || !PyDict_Check(function->func_builtins)) {
        return NULL;
    }
    return dict_get(function->func_builtins, node->argument, node->hash);
}

PyObject *
read_item(PyObject *object, Py_ssize_t index)
{
    if (PyList_Check(object)) {
        return index < PyList_GET_SIZE(object) ? PyList_GET_ITEM(object, index) : NULL;
    }
    if (PyTuple_Check(object)) {
        return index < PyTuple_GET_SIZE(object) ? PyTuple_GET_ITEM(object, index) : NULL;
    }
    return NULL;
}

/* The instance dict as an object; materialises it, which the object keeps. */
static PyObject *
read_instance_dict(PyObject *object)
{
    if (PyType_Check(object)) {
        return NULL;
    }
    if (PyModule_Check(object)) {
        return PyModule_GetDict(object);
    }
    if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT)
        && Py_TYPE(object)->tp_dictoffset == 0) {
        return NULL;
    }
    PyObject *dict = PyObject_GenericGetDict(object, NULL);
    if (dict == NULL) {
        PyErr_Clear();
        return NULL;
    }
    Py_DECREF(dict); /* the object holds it */
    return dict;
}

/* What a bound method of a built-in class is bound to; NULL for functions of modules. Borrowed. */
static PyObject *
builtin_self(PyObject *method)
{
    if (!PyCFunction_CheckExact(method)) {
        return NULL;
    }
    PyObject *self = PyCFunction_GET_SELF(method);
    return self == NULL || PyModule_Check(self) || PyType_Check(self) ? NULL : self;
}

/* The descriptor, such as list.append, that a bound method of a built-in class comes from.
 * Borrowed. */
static PyObject *
builtin_descriptor(PyObject *method)
{
    PyObject *self = builtin_self(method);
    if (self == NULL) {
        return NULL;
    }
    PyMethodDef *definition = ((PyCFunctionObject *)method)->m_ml;
    PyObject *name = PyUnicode_FromString(definition->ml_name);
    if (name == NULL) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *found = _PyType_Lookup(Py_TYPE(self), name);
    Py_DECREF(name);
    if (found == NULL || !Py_IS_TYPE(found, &PyMethodDescr_Type)) {
        return NULL;
    }
    return ((PyMethodDescrObject *)found)->d_method == definition ? found : NULL;
}

/* What iterators over lists and tuples start with, on every version. */
typedef struct {
    PyObject_HEAD
    Py_ssize_t position;
    PyObject *sequence; /* NULL at the end */
} SequenceIterator;

static int
is_sequence_iterator(PyObject *object)
{
    return Py_IS_TYPE(object, &PyListIter_Type) || Py_IS_TYPE(object, &PyTupleIter_Type);
}

/* How many items an iterator over a list or tuple has given, or -1. */
Py_ssize_t
iterator_position(PyObject *iterator)
{
    SequenceIterator *given = (SequenceIterator *)iterator;
    return is_sequence_iterator(iterator) && given->sequence != NULL ? given->position : -1;
}

enum Part {
    PART_CODE, PART_DEFAULTS, PART_KEYWORD_DEFAULTS, PART_NAME, PART_QUALNAME, PART_DOC,
    PART_MODULE, PART_GLOBALS, PART_BUILTINS, PART_GETTER, PART_SETTER, PART_DELETER, PART_WRAPPED,
    PART_MAPPING, PART_DICT,
    PART_COUNT
};

static const char *const part_names[PART_COUNT] = {
    "__code__", "__defaults__", "__kwdefaults__", "__name__", "__qualname__", "__doc__",
    "__module__", "__globals__", "__builtins__", "fget", "fset", "fdel", "__func__",
    "mapping", "__dict__",
};

int
part_number(PyObject *name)
{
    for (int i = 0; i < PART_COUNT; i++) {
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, part_names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static PyObject **
function_part(PyFunctionObject *function, Py_ssize_t number)
{
    switch (number) {
    case PART_CODE:
        return &function->func_code;
    case PART_DEFAULTS:
        return &function->func_defaults;
    case PART_KEYWORD_DEFAULTS:
        return &function->func_kwdefaults;
    case PART_NAME:
        return &function->func_name;
    case PART_QUALNAME:
        return &function->func_qualname;
    case PART_DOC:
        return &function->func_doc;
    case PART_MODULE:
        return &function->func_module;
    case PART_GLOBALS:
        return &function->func_globals;
    case PART_BUILTINS:
        return &function->func_builtins;
    }
    return NULL;
}

PyObject **
part_place(PyObject *object, Py_ssize_t number)
{
    if (PyFunction_Check(object)) {
        return function_part((PyFunctionObject *)object, number);
    }
    if (PyType_Check(object)) {
        PyHeapTypeObject *type = (PyHeapTypeObject *)object;
        int is_heap_type = PyType_HasFeature((PyTypeObject *)object, Py_TPFLAGS_HEAPTYPE);
        if (is_heap_type && number == PART_DICT) {
            return &((PyTypeObject *)object)->tp_dict;
        }
        if (!is_heap_type || (number != PART_NAME && number != PART_QUALNAME)) {
            return NULL;
        }
        return number == PART_NAME ? &type->ht_name : &type->ht_qualname;
    }
    PyObject **fields = (PyObject **)(object + 1); /* not in a header: the first fields of each */
    if (PyObject_TypeCheck(object, &PyProperty_Type)) {
        return number >= PART_GETTER && number <= PART_DELETER ? fields + (number - PART_GETTER)
                                                               : NULL;
    }
    if (PyObject_TypeCheck(object, &PyStaticMethod_Type)
        || PyObject_TypeCheck(object, &PyClassMethod_Type)) {
        return number == PART_WRAPPED ? fields : NULL;
    }
    if (Py_IS_TYPE(object, &PyDictProxy_Type)) {
        return number == PART_MAPPING ? fields : NULL;
    }
    return NULL;
}

static PyObject *
read_part(PyObject *object, Py_ssize_t number)
{
    PyObject **place = part_place(object, number);
    return place == NULL ? NULL : *place == NULL ? Py_None : *place;
}

/* A key by its place in the order of the dict itself; NULL where there are fewer. */
static PyObject *
read_nth_key(PyObject *dict, Py_ssize_t index)
{
    Py_ssize_t position = 0;
    PyObject *key = NULL;
    if (!PyDict_Check(dict)) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i <= index; i++) {
        if (!PyDict_Next(dict, &position, &key, NULL)) {
            return NULL;
        }
    }
    return key;
}

/* An item of a deque, which holds it; its address is nowhere to be pinned. */
static PyObject *
read_deque_item(PyObject *object, Py_ssize_t index)
{
    if (Py_TYPE(object) != (PyTypeObject *)deque_type) {
        return NULL;
    }
    PyObject *item = PySequence_GetItem(object, index);
    if (item == NULL) {
        PyErr_Clear();
        return NULL;
    }
    Py_DECREF(item);
    return item;
}

/* A number in a tensor on the CPU, of one dimension or none; made anew, and held by the node. */
static PyObject *
read_contents(Node *node, PyObject *object)
{
    if (!is_tensor(object) || ((TensorObject *)object)->gpu != NULL
        || !PyArray_Check(((TensorObject *)object)->array)) {
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)((TensorObject *)object)->array;
    int rank = PyArray_NDIM(array);
    if (rank > 1 || node->index >= PyArray_SIZE(array)) {
        return NULL;
    }
    const char *place = PyArray_BYTES(array);
    if (rank == 1) {
        place += node->index * PyArray_STRIDE(array, 0);
    }
    PyObject *number = PyArray_GETITEM(array, place);
    if (number == NULL) {
        PyErr_Clear();
        return NULL;
    }
    Py_XSETREF(node->made, number);
    return number;
}

/* A tensor over the memory of an array of NumPy's, or over a copy of one of its numbers; made anew,
 * and held by the node until the check ends. */
static PyObject *
read_tensor_over(Node *node, PyObject *object)
{
    PyObject *array;
    if (PyArray_CheckExact(object)) {
        array = Py_NewRef(object);
    }
    else if (PyArray_CheckScalar(object) && !PyArray_Check(object)) {
        array = PyArray_FromScalar(object, NULL);
    }
    else {
        return NULL;
    }
    PyObject *tensor = NULL;
    if (array != NULL && PyArray_ISBEHAVED_RO((PyArrayObject *)array)
        && PyTypeNum_ISNUMBER(PyArray_TYPE((PyArrayObject *)array)) + PyArray_ISBOOL((PyArrayObject *)array)) {
        tensor = tensor_api->wrap(array);
    }
    Py_XDECREF(array);
    if (tensor == NULL) {
        PyErr_Clear();
        return NULL;
    }
    Py_XSETREF(node->made, tensor);
    return tensor;
}

/* One step from `base`; borrowed, or NULL where the place does not exist. */
PyObject *
read_step(Node *node, PyObject *base)
{
    switch (node->step) {
    case STEP_ATTRIBUTE:
        return read_attribute(node, base);
    case STEP_KEY: {
        PyObject *key = node->is_weak ? weak_target(node->argument) : node->argument;
        return key != NULL && PyDict_Check(base) ? dict_get(base, key, node->hash) : NULL;
    }
    case STEP_ITEM:
        return read_item(base, node->index);
    case STEP_CONTENTS:
        return read_contents(node, base);
    case STEP_TENSOR_OVER:
        return read_tensor_over(node, base);
    case STEP_DEQUE_ITEM:
        return read_deque_item(base, node->index);
    case STEP_TYPE:
        return (PyObject *)Py_TYPE(base);
    case STEP_CLASS_ATTRIBUTE:
        return _PyType_Lookup(Py_TYPE(base), node->argument);
    case STEP_DICT:
        return read_instance_dict(base);
    case STEP_METHOD_FUNCTION:
        return PyMethod_Check(base) ? PyMethod_GET_FUNCTION(base) : builtin_descriptor(base);
    case STEP_METHOD_SELF:
        return PyMethod_Check(base) ? PyMethod_GET_SELF(base) : builtin_self(base);
    case STEP_ITERATED:
        return is_sequence_iterator(base) ? ((SequenceIterator *)base)->sequence : NULL;
    case STEP_CELL:
        return PyCell_Check(base) ? PyCell_GET(base) : NULL;
    case STEP_PART:
        return read_part(base, node->index);
    case STEP_NTH_KEY:
        return read_nth_key(base, node->index);
    case STEP_MEMBER:
        return PyType_Check(base) ? _PyType_Lookup((PyTypeObject *)base, node->argument) : NULL;
    }
    if (!PyFunction_Check(base)) {
        return NULL;
    }
    PyFunctionObject *function = (PyFunctionObject *)base;
    PyObject *cell;
    switch (node->step) {
    case STEP_GLOBAL:
        return dict_get(function->func_globals, node->argument, node->hash);
    case STEP_BUILTIN:
        return read_builtin(node, base);
    case STEP_CLOSURE:
        cell = read_closure_cell(base, node->index);
        return cell == NULL ? NULL : PyCell_GET(cell);
    case STEP_CLOSURE_CELL:
        return read_closure_cell(base, node->index);
    case STEP_DEFAULT:
        return read_default(base, node->index);
    case STEP_KEYWORD_DEFAULT:
        return function->func_kwdefaults == NULL
                   ? NULL
                   : dict_get(function->func_kwdefaults, node->argument, node->hash);
    }
    return NULL;
}

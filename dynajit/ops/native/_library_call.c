/* LibraryFunction and LibraryMethod: library functions as programs call them.
 *
 * Contract: a call goes to `function` as it is, unless an argument by keyword has one of the names
 * in `foreign`, or more than `most` arguments stand in places: then it is `adapt(self, args,
 * kwargs)`. Where the function raises AttributeError, what `register` was given may raise a better
 * error. Before all of that, where an argument (or an item of one that is a list or tuple) has a class with
 * `__torch_function__`, or a mode is active, `override(self, args, kwargs)` of `register_override` is asked:
 * what it gives is the result, unless it gives `self` back (see `ops.table.overriding`). A tensor of the registered
 * class and objects of C classes cost a comparison each.
 * Attributes that are not here are those of the function; `__signature__` is what `register_signature` was
 * given makes of the object. Made by `ops.calls.library_calls`, which says what the foreign names mean. In C because every call of an eager program passes here: a Python
 * function in front of each would cost four times as much.
 *
 * Methods are bound to instances; functions are not, as PyTorch's, so that a class may hold one.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>

#define NOT_ASKED_CAPSULE "dynajit.ops.native._library_call.not_asked"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function; /* what runs */
    PyObject *foreign;  /* tuple of interned str */
    PyObject *adapt;    /* callable (self, args, kwargs) */
    PyObject *name;     /* str, as it is published */
    PyObject *home;     /* str, a module, or a class: where it is published */
    PyObject *dict;     /* what programs set on it, as on a function; NULL before */
    Py_ssize_t most;
} LibraryCall;

/* Whether an argument by keyword is to be adapted; names that are not interned may be. */
static int
has_foreign(PyObject *foreign, PyObject *names)
{
    Py_ssize_t given = PyTuple_GET_SIZE(names), count = PyTuple_GET_SIZE(foreign);
    for (Py_ssize_t i = 0; i < given; i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (!PyUnicode_CHECK_INTERNED(name)) {
            return 1;
        }
        for (Py_ssize_t j = 0; j < count; j++) {
            if (name == PyTuple_GET_ITEM(foreign, j)) {
                return 1;
            }
        }
    }
    return 0;
}

/* handler(self, args, kwargs[, error]). */
static PyObject *
call_handler(PyObject *handler, LibraryCall *self, PyObject *const *args, Py_ssize_t count,
             PyObject *names, PyObject *error)
{
    Py_ssize_t given = names == NULL ? 0 : PyTuple_GET_SIZE(names);
    PyObject *result = NULL, *positional = PyTuple_New(count), *named = PyDict_New();
    if (positional == NULL || named == NULL) {
        goto done;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
    }
    for (Py_ssize_t i = 0; i < given; i++) {
        if (PyDict_SetItem(named, PyTuple_GET_ITEM(names, i), args[count + i]) < 0) {
            goto done;
        }
    }
    PyObject *arguments[] = {(PyObject *)self, positional, named, error};
    result = PyObject_Vectorcall(handler, arguments, error == NULL ? 3 : 4, NULL);
done:
    Py_XDECREF(positional);
    Py_XDECREF(named);
    return result;
}

static PyObject *explain = NULL; /* callable (self, args, kwargs, error): may raise a better one */

/* The function found an attribute missing: perhaps of an argument that should be a tensor. */
static void
explain_error(LibraryCall *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL) {
        PyException_SetTraceback(error, trace);
    }
    PyObject *nothing = call_handler(explain, self, args, count, names, error);
    if (nothing == NULL) {
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(trace);
        return;
    }
    Py_DECREF(nothing);
    PyErr_Restore(type, error, trace);
}

/* ---- overridden calls ------------------------------------------------------------------------ */

static PyObject *override = NULL;       /* callable (self, args, kwargs); owned, as are the others */
static PyTypeObject *plain_class = NULL; /* class Tensor, whose own protocol does nothing */
static PyObject *no_override = NULL;    /* the `__torch_function__` of classes that override nothing */
static PyObject *name_protocol = NULL;
static int active_modes = 0;            /* in all threads */
static _Thread_local int not_asked = 0; /* blocks of this thread in which classes are not asked */

/* Whether the class of an argument overrides functions. */
static int
class_overrides(PyTypeObject *type)
{
    if (type == plain_class || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        return 0;
    }
    PyObject *found = _PyType_Lookup(type, name_protocol);
    return found != NULL && found != no_override;
}

static int
argument_overrides(PyObject *argument)
{
    if (!PyList_CheckExact(argument) && !PyTuple_CheckExact(argument)) {
        return class_overrides(Py_TYPE(argument));
    }
    Py_ssize_t count = PySequence_Fast_GET_SIZE(argument);
    PyObject **items = PySequence_Fast_ITEMS(argument);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (class_overrides(Py_TYPE(items[i]))) {
            return 1;
        }
    }
    return 0;
}

/* Whether `override` is to be asked about a call. */
static int
is_overridden(PyObject *const *args, Py_ssize_t count)
{
    if (active_modes > 0) {
        return 1;
    }
    if (override == NULL || not_asked > 0) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (argument_overrides(args[i])) {
            return 1;
        }
    }
    return 0;
}

static PyObject *
library_vectorcall(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names)
{
    LibraryCall *self = (LibraryCall *)callable;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (is_overridden(args, count + (names == NULL ? 0 : PyTuple_GET_SIZE(names)))) {
        PyObject *result = call_handler(override, self, args, count, names, NULL);
        if (result != callable) {
            return result;
        }
        Py_DECREF(result);
    }
    if (count > self->most || (names != NULL && has_foreign(self->foreign, names))) {
        return call_handler(self->adapt, self, args, count, names, NULL);
    }
    PyObject *result = PyObject_Vectorcall(self->function, args, flags, names);
    if (result == NULL && explain != NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        explain_error(self, args, count, names);
    }
    return result;
}

static PyObject *
library_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "foreign", "adapt", "name", "home", "most", NULL};
    PyObject *function, *foreign, *adapt, *name, *home;
    Py_ssize_t most;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!OUOn", names, &function, &PyTuple_Type,
                                     &foreign, &adapt, &name, &home, &most)) {
        return NULL;
    }
    LibraryCall *self = (LibraryCall *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = library_vectorcall;
    self->function = Py_NewRef(function);
    self->foreign = Py_NewRef(foreign);
    self->adapt = Py_NewRef(adapt);
    self->name = Py_NewRef(name);
    self->home = Py_NewRef(home);
    self->most = most;
    return (PyObject *)self;
}

static int
library_traverse(PyObject *object, visitproc visit, void *arg)
{
    LibraryCall *self = (LibraryCall *)object;
    Py_VISIT(self->function);
    Py_VISIT(self->foreign);
    Py_VISIT(self->adapt);
    Py_VISIT(self->home);
    Py_VISIT(self->dict);
    return 0;
}

static int
library_clear(PyObject *object)
{
    LibraryCall *self = (LibraryCall *)object;
    Py_CLEAR(self->function);
    Py_CLEAR(self->foreign);
    Py_CLEAR(self->adapt);
    Py_CLEAR(self->name);
    Py_CLEAR(self->home);
    Py_CLEAR(self->dict);
    return 0;
}

static void
library_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    library_clear(object);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *make_signature = NULL; /* callable (self); owned */

static PyObject *
library_getattro(PyObject *object, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(object, name);
    if (found != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return found;
    }
    PyErr_Clear();
    if (make_signature != NULL && PyUnicode_CompareWithASCIIString(name, "__signature__") == 0) {
        return PyObject_CallOneArg(make_signature, object);
    }
    return PyObject_GetAttr(((LibraryCall *)object)->function, name);
}

static PyObject *
library_repr(PyObject *object)
{
    return PyUnicode_FromFormat("<library function %U>", ((LibraryCall *)object)->name);
}

static PyObject *
method_get(PyObject *self, PyObject *instance, PyObject *owner)
{
    return instance == NULL ? Py_NewRef(self) : PyMethod_New(self, instance);
}

/* Pickled and copied by name, as functions are. */
static PyObject *
library_reduce(PyObject *self, PyObject *ignored)
{
    return Py_NewRef(((LibraryCall *)self)->name);
}

static PyObject *
method_reduce(PyObject *object, PyObject *ignored)
{
    LibraryCall *self = (LibraryCall *)object;
    PyObject *builtins = PyEval_GetBuiltins();
    PyObject *getter = builtins == NULL ? NULL : PyDict_GetItemString(builtins, "getattr");
    return getter == NULL ? NULL : Py_BuildValue("O(OO)", getter, self->home, self->name);
}

static PyObject *
get_doc(PyObject *self, void *ignored)
{
    return PyObject_GetAttrString(((LibraryCall *)self)->function, "__doc__");
}

static PyObject *
get_module(PyObject *object, void *ignored)
{
    LibraryCall *self = (LibraryCall *)object;
    if (PyUnicode_Check(self->home)) {
        return Py_NewRef(self->home);
    }
    return PyObject_GetAttrString(self->home, "__module__");
}

static PyMemberDef library_members[] = {
    {"__wrapped__", T_OBJECT_EX, offsetof(LibraryCall, function), READONLY, "What runs."},
    {"__name__", T_OBJECT_EX, offsetof(LibraryCall, name), READONLY, NULL},
    {"__qualname__", T_OBJECT_EX, offsetof(LibraryCall, name), READONLY, NULL},
    {"foreign", T_OBJECT_EX, offsetof(LibraryCall, foreign), READONLY,
     "Names of arguments that the function does not know."},
    {"most", T_PYSSIZET, offsetof(LibraryCall, most), READONLY, "Arguments that have places."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef library_attributes[] = {
    {"__module__", get_module, NULL, "Where the name is published.", NULL},
    {"__doc__", get_doc, NULL, NULL, NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* Its own: a type without one has None under this name. */
static PyGetSetDef method_attributes[] = {
    {"__doc__", get_doc, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef library_methods[] = {
    {"__reduce__", library_reduce, METH_NOARGS, "By name."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef method_methods[] = {
    {"__reduce__", method_reduce, METH_NOARGS, "As an attribute of its class."},
    {NULL, NULL, 0, NULL},
};

#define LIBRARY_FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL)

static PyTypeObject LibraryFunction_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.ops.native._library_call.LibraryFunction",
    .tp_basicsize = sizeof(LibraryCall),
    .tp_flags = LIBRARY_FLAGS | Py_TPFLAGS_BASETYPE,
    .tp_vectorcall_offset = offsetof(LibraryCall, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = library_new,
    .tp_traverse = library_traverse,
    .tp_clear = library_clear,
    .tp_dealloc = library_dealloc,
    .tp_getattro = library_getattro,
    .tp_setattro = PyObject_GenericSetAttr,
    .tp_dictoffset = offsetof(LibraryCall, dict),
    .tp_repr = library_repr,
    .tp_members = library_members,
    .tp_getset = library_attributes,
    .tp_methods = library_methods,
};

static PyTypeObject LibraryMethod_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.ops.native._library_call.LibraryMethod",
    .tp_basicsize = sizeof(LibraryCall),
    .tp_flags = LIBRARY_FLAGS | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_base = &LibraryFunction_Type,
    .tp_vectorcall_offset = offsetof(LibraryCall, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_traverse = library_traverse,
    .tp_clear = library_clear,
    .tp_descr_get = method_get,
    .tp_methods = method_methods,
    .tp_getset = method_attributes,
};

static PyObject *
module_register(PyObject *module, PyObject *callable)
{
    Py_XSETREF(explain, Py_NewRef(callable));
    Py_RETURN_NONE;
}

static PyObject *
module_register_signature(PyObject *module, PyObject *callable)
{
    Py_XSETREF(make_signature, Py_NewRef(callable));
    Py_RETURN_NONE;
}

/* register_override(override, Tensor, no_override): see the top. */
static PyObject *
module_register_override(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyType_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "register_override(override, class, no_override)");
        return NULL;
    }
    Py_XSETREF(override, Py_NewRef(args[0]));
    Py_XSETREF(plain_class, (PyTypeObject *)Py_NewRef(args[1]));
    Py_XSETREF(no_override, Py_NewRef(args[2]));
    Py_RETURN_NONE;
}

static PyObject *
module_overrides(PyObject *module, PyObject *object)
{
    return PyBool_FromLong(not_asked == 0 && class_overrides(Py_TYPE(object)));
}

static PyObject *
module_count_modes(PyObject *module, PyObject *change)
{
    long more = PyLong_AsLong(change);
    if (more == -1 && PyErr_Occurred()) {
        return NULL;
    }
    active_modes += (int)more;
    Py_RETURN_NONE;
}

static PyObject *
module_ask_no_class(PyObject *module, PyObject *change)
{
    long more = PyLong_AsLong(change);
    if (more == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int before = not_asked;
    not_asked += (int)more;
    return PyLong_FromLong(before);
}

static int
get_not_asked(void)
{
    return not_asked;
}

static int (*const classes_not_asked)(void) = get_not_asked;

static PyMethodDef module_methods[] = {
    {"register_override", (PyCFunction)(void (*)(void))module_register_override, METH_FASTCALL,
     "register_override(override, Tensor, no_override): who is asked before calls."},
    {"overrides", module_overrides, METH_O,
     "overrides(x): has the class of x a protocol that is asked in this thread?"},
    {"count_modes", module_count_modes, METH_O, "count_modes(change): so many more are active."},
    {"ask_no_class", module_ask_no_class, METH_O,
     "ask_no_class(change) -> blocks before: this thread is in so many more of them."},
    {"register", module_register, METH_O,
     "register(explain): explain(function, args, kwargs, error) sees each AttributeError."},
    {"register_signature", module_register_signature, METH_O,
     "register_signature(make): make(function) -> its `__signature__`."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynajit.ops.native._library_call",
    .m_doc = "LibraryFunction and LibraryMethod, what programs call.",
    .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC
PyInit__library_call(void)
{
    name_protocol = PyUnicode_InternFromString("__torch_function__");
    if (name_protocol == NULL || PyType_Ready(&LibraryFunction_Type) < 0 ||
        PyType_Ready(&LibraryMethod_Type) < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&module_definition);
    if (module == NULL) {
        return NULL;
    }
    if (PyModule_AddObjectRef(module, "LibraryFunction", (PyObject *)&LibraryFunction_Type) < 0 ||
        PyModule_AddObjectRef(module, "LibraryMethod", (PyObject *)&LibraryMethod_Type) < 0) {
        Py_CLEAR(module);
    }
    PyObject *capsule =
        module == NULL ? NULL : PyCapsule_New((void *)&classes_not_asked, NOT_ASKED_CAPSULE, NULL);
    if (module != NULL && PyModule_AddObjectRef(module, "not_asked", capsule) < 0) {
        Py_CLEAR(module);
    }
    Py_XDECREF(capsule);
    return module;
}

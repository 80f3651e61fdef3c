/* RowCall: what makes an `Op` callable.
 *
 * Contract: `row(*inputs, **attributes)` is `attempt(row, inputs, attributes)` where that gives
 * anything but NotImplemented, else `row.run(*inputs, **attributes)`. `install` names `attempt`,
 * once (eager does, through `ops.table.dispatch`); before, and where nobody does, every call runs. In C
 * because each operation of an eager program passes here: a Python `__call__` costs 0.2 us more,
 * a fifth of an addition. Base class of `ops.table.op_table.Op`.
 *
 * `enter_recording` and `leave_recording` count the blocks of `dispatch.recording` that this thread is
 * in; the capsule `recording` is a pointer to a function that says how many. While there is one,
 * rows without a tensor among their operands are not eager's.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define RECORDING_CAPSULE "dynajit.ops.native._row_call.recording"

static PyObject *attempt = NULL; /* callable (row, inputs, attributes); owned */
static PyObject *name_run = NULL;
static _Thread_local int recording_depth = 0;

static int
get_recording_depth(void)
{
    return recording_depth;
}

static int (*const recording)(void) = get_recording_depth;

static PyObject *
row_call(PyObject *self, PyObject *inputs, PyObject *attributes)
{
    if (attempt != NULL) {
        PyObject *given = attributes == NULL ? PyDict_New() : Py_NewRef(attributes);
        if (given == NULL) {
            return NULL;
        }
        PyObject *arguments[] = {self, inputs, given};
        PyObject *result = PyObject_Vectorcall(attempt, arguments, 3, NULL);
        Py_DECREF(given);
        if (result != Py_NotImplemented) {
            return result;
        }
        Py_DECREF(result);
    }
    PyObject *run = PyObject_GetAttr(self, name_run);
    PyObject *result = run == NULL ? NULL : PyObject_Call(run, inputs, attributes);
    Py_XDECREF(run);
    return result;
}

static PyTypeObject RowCall_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.ops.native._row_call.RowCall",
    .tp_doc = "An object that is called as `_row_call.c` says.",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_call = row_call,
    .tp_new = PyType_GenericNew,
};

/* install(attempt): see the top. */
static PyObject *
module_install(PyObject *module, PyObject *callable)
{
    Py_XSETREF(attempt, Py_NewRef(callable));
    Py_RETURN_NONE;
}

static PyObject *
module_enter_recording(PyObject *module, PyObject *ignored)
{
    recording_depth++;
    Py_RETURN_NONE;
}

static PyObject *
module_leave_recording(PyObject *module, PyObject *ignored)
{
    recording_depth--;
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"enter_recording", module_enter_recording, METH_NOARGS, "This thread records, once more."},
    {"leave_recording", module_leave_recording, METH_NOARGS, "The end of `enter_recording`."},
    {"install", module_install, METH_O, "install(attempt): what is asked before a row runs."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynajit.ops.native._row_call",
    .m_doc = "RowCall, the base class of rows.",
    .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC
PyInit__row_call(void)
{
    name_run = PyUnicode_InternFromString("run");
    if (name_run == NULL || PyType_Ready(&RowCall_Type) < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&module_definition);
    if (module != NULL &&
        PyModule_AddObjectRef(module, "RowCall", (PyObject *)&RowCall_Type) < 0) {
        Py_CLEAR(module);
    }
    PyObject *capsule =
        module == NULL ? NULL : PyCapsule_New((void *)&recording, RECORDING_CAPSULE, NULL);
    if (module != NULL && PyModule_AddObjectRef(module, "recording", capsule) < 0) {
        Py_CLEAR(module);
    }
    Py_XDECREF(capsule);
    return module;
}

/* See class_lookup.h. */
#include "class_lookup.h"

PyObject *
module_class_member(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyType_Check(args[0]) || !PyUnicode_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "class_member(class, name, default)");
        return NULL;
    }
    PyObject *mro = ((PyTypeObject *)args[0])->tp_mro, *found = NULL;
    if (mro == NULL) {
        return Py_NewRef(args[2]);
    }
    PyObject *name = PyUnicode_FromObject(args[1]); /* of class str: the dict asks no subclass */
    if (name == NULL) {
        return NULL;
    }
    Py_INCREF(mro);
    for (Py_ssize_t i = 0; found == NULL && i < PyTuple_GET_SIZE(mro); i++) {
        PyObject *dict = class_dict((PyTypeObject *)PyTuple_GET_ITEM(mro, i));
        if (dict == NULL) {
            continue;
        }
        if (!DK_IS_UNICODE(((PyDictObject *)dict)->ma_keys)) {
            PyErr_SetString(PyExc_LookupError, "the class has keys that are no strings");
            break;
        }
        found = PyDict_GetItemWithError(dict, name);
        if (found == NULL && PyErr_Occurred()) {
            break;
        }
    }
    Py_XINCREF(found);
    Py_DECREF(mro);
    Py_DECREF(name);
    if (found == NULL && !PyErr_Occurred()) {
        return Py_NewRef(args[2]);
    }
    return found;
}

PyObject *
module_makes_plainly(PyObject *module, PyObject *cls)
{
    if (!PyType_Check(cls)) {
        PyErr_SetString(PyExc_TypeError, "makes_plainly: expected a class");
        return NULL;
    }
    PyTypeObject *type = (PyTypeObject *)cls;
    return Py_BuildValue("(NN)", PyBool_FromLong(type->tp_new == PyBaseObject_Type.tp_new),
                         PyBool_FromLong(type->tp_init == PyBaseObject_Type.tp_init));
}

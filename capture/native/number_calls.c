/* Functions of numbers for expressions of which a part is not asked for.
 *
 * Both arms of `a if condition else b` are computed in front of a launch. The one that is not asked
 * for may raise, which the program never sees: its value is None then, and so is all that is
 * computed from it.
 */
#include "number_calls.h"

PyObject *
module_attempt(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "attempt: a function is expected");
        return NULL;
    }
    for (Py_ssize_t i = 1; i < count; i++) {
        if (arguments[i] == Py_None) {
            Py_RETURN_NONE;
        }
    }
    PyObject *result = PyObject_Vectorcall(arguments[0], arguments + 1, (size_t)(count - 1), NULL);
    if (result == NULL && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    return result;
}

PyObject *
module_choose(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "choose: a condition and two numbers are expected");
        return NULL;
    }
    int is_first = PyObject_IsTrue(arguments[0]);
    return is_first < 0 ? NULL : Py_NewRef(arguments[is_first ? 1 : 2]);
}

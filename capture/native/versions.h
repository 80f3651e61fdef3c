/* What differs between CPython 3.11 to 3.14, and the headers that know. Nothing else asks for the
 * version, except `dict_versions.h` and `caller_stack.c`.
 */
#ifndef DYNAJIT_CAPTURE_VERSIONS_H
#define DYNAJIT_CAPTURE_VERSIONS_H

#define Py_BUILD_CORE 1
#include <Python.h>
#include <structmember.h>
#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_object.h>
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe.h>
#include <internal/pycore_stackref.h>
#endif
#undef Py_BUILD_CORE
#include <stddef.h>
#include <stdint.h>

#ifdef Py_GIL_DISABLED
#error "free-threaded CPython is not supported"
#endif

#if PY_VERSION_HEX < 0x030C0000 /* 3.11 */
#define FRAME_CODE(frame) ((frame)->f_code)
#define FRAME_FUNCTION(frame) ((frame)->f_func)
#define CODE_FRAME_SIZE(code) ((code)->co_nlocalsplus + (code)->co_stacksize + FRAME_SPECIALS_SIZE)
#define IS_TRACING(ts) ((ts)->cframe->use_tracing != 0)
#define CODE_GET_EXTRA _PyCode_GetExtra
#define CODE_SET_EXTRA _PyCode_SetExtra
#define REQUEST_CODE_EXTRA_INDEX _PyEval_RequestCodeExtraIndex
#define CURRENT_FRAME(ts) ((ts)->cframe->current_frame)
#else
#if PY_VERSION_HEX < 0x030D0000 /* 3.12 */
#define FRAME_CODE(frame) ((frame)->f_code)
#define FRAME_FUNCTION(frame) ((PyFunctionObject *)(frame)->f_funcobj)
#define CURRENT_FRAME(ts) ((ts)->cframe->current_frame)
#elif PY_VERSION_HEX < 0x030E0000 /* 3.13 */
#define FRAME_CODE(frame) ((PyCodeObject *)(frame)->f_executable)
#define FRAME_FUNCTION(frame) ((PyFunctionObject *)(frame)->f_funcobj)
#define CURRENT_FRAME(ts) ((ts)->current_frame)
#elif PY_VERSION_HEX < 0x030F0000 /* 3.14: what a frame refers to is tagged */
#define FRAME_CODE(frame) ((PyCodeObject *)PyStackRef_AsPyObjectBorrow((frame)->f_executable))
#define FRAME_FUNCTION(frame) ((PyFunctionObject *)PyStackRef_AsPyObjectBorrow((frame)->f_funcobj))
#define CURRENT_FRAME(ts) ((ts)->current_frame)
#else
#error "this version of CPython is not supported yet"
#endif
#define CODE_FRAME_SIZE(code) ((code)->co_framesize)
#define IS_TRACING(ts) ((ts)->tracing > 0 || (ts)->c_tracefunc != NULL || (ts)->c_profilefunc != NULL)
#define CODE_GET_EXTRA PyUnstable_Code_GetExtra
#define CODE_SET_EXTRA PyUnstable_Code_SetExtra
#define REQUEST_CODE_EXTRA_INDEX PyUnstable_Eval_RequestCodeExtraIndex
#endif

#if PY_VERSION_HEX < 0x030D0000
#define PyLong_AsInt _PyLong_AsInt
#endif

/* Up to 3.13 a hooked frame costs two units of the C recursion limit although it uses little C
 * stack; the hook gives them back, while much stack is left, so that the recursion limit stays the
 * one the user knows. 3.11 and 3.14 do not count. */
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030E0000
#define C_RECURSION_PER_FRAME 2
#else
#define C_RECURSION_PER_FRAME 0
#endif

/* A local of a frame that has not started (borrowed). */
static inline PyObject *
frame_local(_PyInterpreterFrame *frame, int i)
{
#if PY_VERSION_HEX < 0x030E0000
    return frame->localsplus[i];
#else
    return PyStackRef_AsPyObjectBorrow(frame->localsplus[i]);
#endif
}

/* Give a frame that has not started another code object; the data stack is the caller's matter. */
static inline void
frame_set_code(_PyInterpreterFrame *frame, PyCodeObject *new)
{
    PyCodeObject *old = FRAME_CODE(frame);
#if PY_VERSION_HEX < 0x030E0000
    for (int i = old->co_nlocalsplus; i < new->co_nlocalsplus; i++) {
        frame->localsplus[i] = NULL;
    }
    frame->stacktop = new->co_nlocalsplus;
    Py_INCREF(new);
#if PY_VERSION_HEX < 0x030D0000
    frame->f_code = new;
    frame->prev_instr = _PyCode_CODE(new) - 1;
#else
    frame->f_executable = (PyObject *)new;
    frame->instr_ptr = _PyCode_CODE(new);
#endif
    Py_DECREF(old);
#else
    _PyStackRef before = frame->f_executable;
    for (int i = old->co_nlocalsplus; i < new->co_nlocalsplus; i++) {
        frame->localsplus[i] = PyStackRef_NULL;
    }
    frame->stackpointer = frame->localsplus + new->co_nlocalsplus;
    frame->f_executable = PyStackRef_FromPyObjectNew((PyObject *)new);
    frame->instr_ptr = _PyCode_CODE(new);
    PyStackRef_CLOSE(before);
#endif
}

/* The dict of a class (borrowed), or NULL. From 3.12 on static ones of built-in classes are kept
 * elsewhere. */
static inline PyObject *
class_dict(PyTypeObject *type)
{
#if PY_VERSION_HEX < 0x030C0000
    return type->tp_dict;
#else
    PyObject *dict = PyType_GetDict(type);
    Py_XDECREF(dict); /* the class holds it */
    return dict;
#endif
}

/* The values of an instance that has no dict of its own yet, or NULL. */
static inline PyDictValues *
inline_values(PyObject *object)
{
#if PY_VERSION_HEX < 0x030C0000
    return *_PyObject_ValuesPointer(object);
#elif PY_VERSION_HEX < 0x030D0000
    PyDictOrValues pointer = *_PyObject_DictOrValuesPointer(object);
    return _PyDictOrValues_IsValues(pointer) ? _PyDictOrValues_GetValues(pointer) : NULL;
#else
    if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_INLINE_VALUES)) {
        return NULL;
    }
    PyDictValues *values = _PyObject_InlineValues(object);
    return values->valid ? values : NULL;
#endif
}

/* Where the managed dict pointer of an instance is stored. */
static inline PyObject **
managed_dict_address(PyObject *object)
{
    return (PyObject **)object - 3; /* the same place in 3.11 to 3.14 */
}

/* The managed dict of an instance without inline values, or NULL. */
static inline PyObject *
managed_dict(PyObject *object)
{
    return *managed_dict_address(object);
}

#endif

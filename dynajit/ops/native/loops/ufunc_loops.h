/* Inner loops of ufuncs, NumPy's and our own, to be called without the ufunc: with their bits.
 *
 * Contract: included behind NumPy's headers by the modules of rows in C, which look loops up when they
 * are imported. A loop neither raises nor needs the interpreter's lock.
 */
#ifndef DYNAJIT_UFUNC_LOOPS_H
#define DYNAJIT_UFUNC_LOOPS_H

/* One inner loop of a ufunc. */
typedef struct {
    PyUFuncGenericFunction run;
    void *data;
} Loop;

/* `count` elements side by side, each of `size` bytes, from `x` to `result`. */
static inline void
apply(Loop loop, void *x, void *result, npy_intp count, npy_intp size)
{
    char *operands[] = {x, result};
    npy_intp steps[] = {size, size};
    loop.run(operands, &count, steps, loop.data);
}

/* The loop of a ufunc of a module for inputs of one type; -1 with an ImportError if there is none. */
static inline int
find_loop(PyObject *module, const char *name, int type, Loop *loop)
{
    PyObject *found = PyObject_GetAttrString(module, name);
    if (found == NULL) {
        return -1;
    }
    PyUFuncObject *ufunc = (PyUFuncObject *)found;
    for (int i = 0; PyObject_TypeCheck(found, &PyUFunc_Type) && i < ufunc->ntypes; i++) {
        int fits = 1;
        for (int k = 0; k < ufunc->nin; k++) {
            fits &= ufunc->types[i * ufunc->nargs + k] == type;
        }
        if (fits) {
            *loop = (Loop){ufunc->functions[i], ufunc->data == NULL ? NULL : ufunc->data[i]};
            Py_DECREF(found); /* the module keeps it */
            return 0;
        }
    }
    Py_DECREF(found);
    PyErr_Format(PyExc_ImportError, "%s has no loop of type %d", name, type);
    return -1;
}

#endif

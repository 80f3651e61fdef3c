/* The C side of capture: guard evaluator, entry object, scoped frame hook. */
#include <Python.h>

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "dynajit.capture._capture", NULL, -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__capture(void)
{
    return PyModule_Create(&module);
}

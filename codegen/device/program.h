/* Programs on a GPU: see program.c. */
#ifndef DYNAJIT_DEVICE_PROGRAM_H
#define DYNAJIT_DEVICE_PROGRAM_H

#include <Python.h>

extern PyTypeObject DeviceProgram_Type;

/* Names and constants of the module; -1 with an exception. */
int program_prepare(PyObject *module);

#endif

/* Running kernels on a GPU from C: the CUDA driver, launch plans, programs over arrays.
 *
 * The parts are in codegen/device: driver.h (the driver, loaded when it is first asked for; nothing
 * of CUDA's is needed to build this), plan.h (what runs, in order), products.c (matrix products by
 * cuBLASLt), replays.h (CUDA graphs), program.h (calls with arrays). Used by
 * `dynajit.codegen.device.driver` and `codegen.device.program`. */
#define DYNAJIT_DEVICE_MODULE
#include "device/program.h"

static PyObject *is_forked(PyObject *module, PyObject *unused) {
    return PyBool_FromLong(device_is_forked);
}

static PyObject *set_tf32(PyObject *module, PyObject *flag) {
    int allowed = PyObject_IsTrue(flag);
    if (allowed < 0) return NULL;
    products_allow_tf32 = allowed;
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"set_tf32", set_tf32, METH_O, "Whether products of float32 may use TF32, from now on."},
    {"is_forked", is_forked, METH_NOARGS,
     "Whether this process is a fork of one that used the driver: it cannot."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_device",
    .m_doc = "Runs kernels on a GPU.",
    .m_size = -1,
    .m_methods = module_methods,
};

static const struct {
    const char *name;
    long value;
} constants[] = {
    {"ADD", ADD}, {"MULTIPLY", MULTIPLY}, {"FLOOR_DIVIDE", FLOOR_DIVIDE}, {"MODULO", MODULO},
    {"MINIMUM", MINIMUM}, {"MAXIMUM", MAXIMUM}, {"STEP_KERNEL", STEP_KERNEL},
    {"STEP_MEMSET", STEP_MEMSET}, {"STEP_PRODUCT", STEP_PRODUCT}, {"DATA_F32", DATA_F32},
    {"DATA_F64", DATA_F64}, {"DATA_F16", DATA_F16}, {"DATA_BF16", DATA_BF16},
    {"EPILOGUE_DEFAULT", EPILOGUE_DEFAULT},
    {"EPILOGUE_BIAS", EPILOGUE_BIAS},
};

PyMODINIT_FUNC PyInit__device(void) {
    import_array();
    if (driver_prepare() < 0) return PyErr_NoMemory();
    PyTypeObject *types[] = {&Driver_Type, &Module_Type, &Plan_Type, &DeviceProgram_Type};
    const char *names[] = {"Driver", "Module", "Plan", "Program"};
    PyObject *module = PyModule_Create(&module_definition);
    if (!module) return NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyType_Ready(types[i]) < 0 ||
            PyModule_AddObjectRef(module, names[i], (PyObject *)types[i]) < 0)
            goto failed;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0) goto failed;
    if (program_prepare(module) < 0) goto failed;
    return module;
failed:
    Py_DECREF(module);
    return NULL;
}

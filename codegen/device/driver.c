/* Loading the driver and cuBLASLt, contexts, images. See driver.h. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <structmember.h>

int device_is_forked;
static int is_used;

static void become_child(void) { device_is_forked = is_used; }

int driver_failed(DriverObject *driver, const char *call, int code) {
    const char *name = NULL, *text = NULL;
    driver->call.error_name(code, &name);
    driver->call.error_text(code, &text);
    PyObject *ignored = PyObject_CallFunction(driver->fail, "siss", call, code,
                                              name ? name : "an unknown error", text ? text : "");
    Py_XDECREF(ignored);
    if (!PyErr_Occurred()) PyErr_Format(PyExc_RuntimeError, "%s failed: %d", call, code);
    return -1;
}

int products_failed(DriverObject *driver, const char *call, int code) {
    PyObject *ignored =
        PyObject_CallFunction(driver->fail, "siss", call, code, "an error of cuBLASLt", "");
    Py_XDECREF(ignored);
    if (!PyErr_Occurred()) PyErr_Format(PyExc_RuntimeError, "%s failed: %d", call, code);
    return -1;
}

int driver_is_in(DriverObject *driver, int device) {
    void *current;
    return driver->contexts[device] && driver->call.context_get(&current) == CUDA_SUCCESS &&
           current == driver->contexts[device];
}

int driver_enter(DriverObject *driver, int device) {
    int code;
    if (device < 0 || device >= driver->count) {
        PyErr_Format(PyExc_ValueError, "there is no GPU %d; there are %d", device, driver->count);
        return -1;
    }
    if (!driver->contexts[device] &&
        (code = driver->call.context_retain(&driver->contexts[device], device)))
        return driver_failed(driver, "cuDevicePrimaryCtxRetain", code);
    if (!driver_is_in(driver, device) &&
        (code = driver->call.context_set(driver->contexts[device])))
        return driver_failed(driver, "cuCtxSetCurrent", code);
    return 0;
}

void *driver_visit(DriverObject *driver, int device) {
    void *before = NULL;
    driver->call.context_get(&before);
    driver->call.context_set(driver->contexts[device]);
    return before;
}

void driver_return(DriverObject *driver, void *before) { driver->call.context_set(before); }

void *driver_products(DriverObject *driver, int device) {
    if (!driver->products.create) {
        driver_failed(driver, "dlopen(libcublasLt)", 0);
        return NULL;
    }
    if (!driver->handles[device]) {
        int code = driver->products.create(&driver->handles[device]);
        if (code) products_failed(driver, "cublasLtCreate", code);
    }
    return driver->handles[device];
}

/* ---- the driver ---- */

typedef struct {
    const char *symbol;
    size_t offset;
} Symbol;

#define DRIVER_SYMBOL(field, symbol, parameters) {symbol, offsetof(DriverFunctions, field)},
#define PRODUCT_SYMBOL(field, symbol, parameters) {symbol, offsetof(ProductFunctions, field)},

static const Symbol driver_symbols[] = {DRIVER_FUNCTIONS(DRIVER_SYMBOL){NULL, 0}};
static const Symbol product_symbols[] = {PRODUCT_FUNCTIONS(PRODUCT_SYMBOL){NULL, 0}};

/* Open a library and fill a table of its functions; -1 with OSError. */
static int open_functions(PyObject *path, const Symbol *symbols, void **library, void *table) {
    PyObject *bytes;
    if (!PyUnicode_FSConverter(path, &bytes)) return -1;
    *library = dlopen(PyBytes_AS_STRING(bytes), RTLD_NOW | RTLD_LOCAL);
    Py_DECREF(bytes);
    if (!*library) {
        PyErr_SetString(PyExc_OSError, dlerror());
        return -1;
    }
    for (; symbols->symbol; symbols++) {
        void *found = dlsym(*library, symbols->symbol);
        if (!found) {
            PyErr_Format(PyExc_OSError, "%S has no function %s", path, symbols->symbol);
            return -1;
        }
        memcpy((char *)table + symbols->offset, &found, sizeof found);
    }
    return 0;
}

static int start_driver(DriverObject *self) {
    int code;
    if ((code = self->call.init(0))) return driver_failed(self, "cuInit", code);
    if ((code = self->call.driver_version(&self->version)))
        return driver_failed(self, "cuDriverGetVersion", code);
    if ((code = self->call.device_count(&self->count)))
        return driver_failed(self, "cuDeviceGetCount", code);
    self->contexts = PyMem_Calloc((size_t)self->count + 1, sizeof(void *));
    self->handles = PyMem_Calloc((size_t)self->count + 1, sizeof(void *));
    if (!self->contexts || !self->handles) return PyErr_NoMemory(), -1;
    is_used = 1;
    return 0;
}

static PyObject *Driver_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"path", "products", "fail", NULL};
    PyObject *path, *products, *fail;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO:Driver", names, &path, &products, &fail))
        return NULL;
    DriverObject *self = (DriverObject *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->fail = Py_NewRef(fail);
    if (open_functions(path, driver_symbols, &self->library, &self->call) < 0 ||
        start_driver(self) < 0 ||
        (products != Py_None && open_functions(products, product_symbols, &self->products_library,
                                               &self->products) < 0)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int Driver_traverse(DriverObject *self, visitproc visit, void *arg) {
    Py_VISIT(self->fail);
    return 0;
}

static int Driver_clear(DriverObject *self) {
    Py_CLEAR(self->fail);
    return 0;
}

/* The libraries stay loaded: contexts outlive us, and CuPy works with them. */
static void Driver_dealloc(DriverObject *self) {
    PyObject_GC_UnTrack(self);
    Driver_clear(self);
    PyMem_Free(self->contexts);
    PyMem_Free(self->handles);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *Driver_name(DriverObject *self, PyObject *number) {
    char name[256] = "";
    int device = (int)PyLong_AsLong(number);
    if (device == -1 && PyErr_Occurred()) return NULL;
    int code = self->call.device_name(name, sizeof name, device);
    if (code) return driver_failed(self, "cuDeviceGetName", code), NULL;
    return PyUnicode_FromString(name);
}

static PyObject *Driver_attribute(DriverObject *self, PyObject *args) {
    int attribute, device, value;
    if (!PyArg_ParseTuple(args, "ii", &attribute, &device)) return NULL;
    int code = self->call.device_attribute(&value, attribute, device);
    if (code) return driver_failed(self, "cuDeviceGetAttribute", code), NULL;
    return PyLong_FromLong(value);
}

static PyObject *Driver_synchronize(DriverObject *self, PyObject *args) {
    int device, code;
    unsigned long long stream;
    if (!PyArg_ParseTuple(args, "Ki", &stream, &device)) return NULL;
    if (driver_enter(self, device) < 0) return NULL;
    Py_BEGIN_ALLOW_THREADS
    code = self->call.stream_synchronize((void *)(uintptr_t)stream);
    Py_END_ALLOW_THREADS
    if (code) return driver_failed(self, "cuStreamSynchronize", code), NULL;
    Py_RETURN_NONE;
}

static PyMethodDef Driver_methods[] = {
    {"name", (PyCFunction)Driver_name, METH_O, "Name of a device."},
    {"attribute", (PyCFunction)Driver_attribute, METH_VARARGS,
     "A number (CU_DEVICE_ATTRIBUTE_...) of a device."},
    {"synchronize", (PyCFunction)Driver_synchronize, METH_VARARGS,
     "Wait for a stream of a device."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef Driver_members[] = {
    {"version", T_INT, offsetof(DriverObject, version), READONLY,
     "CUDA's version that the driver serves: 13000 for 13.0."},
    {"device_count", T_INT, offsetof(DriverObject, count), READONLY, "Number of GPUs."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Driver_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.codegen._device.Driver",
    .tp_basicsize = sizeof(DriverObject),
    .tp_dealloc = (destructor)Driver_dealloc,
    .tp_traverse = (traverseproc)Driver_traverse,
    .tp_clear = (inquiry)Driver_clear,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_methods = Driver_methods,
    .tp_members = Driver_members,
    .tp_new = Driver_new,
    .tp_doc = "The CUDA driver in a shared object.",
};

/* ---- images ---- */

static PyObject *Module_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"driver", "image", "device", NULL};
    PyObject *driver;
    const char *image;
    Py_ssize_t size;
    int device;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!y#i:Module", names, &Driver_Type, &driver,
                                     &image, &size, &device))
        return NULL;
    if (driver_enter((DriverObject *)driver, device) < 0) return NULL;
    ModuleObject *self = (ModuleObject *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->driver = (DriverObject *)Py_NewRef(driver);
    self->device = device;
    int code = self->driver->call.module_load(&self->module, image);
    if (code) {
        driver_failed(self->driver, "cuModuleLoadData", code);
        self->module = NULL;
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void Module_dealloc(ModuleObject *self) {
    if (self->module && !device_is_forked) {
        void *before = driver_visit(self->driver, self->device);
        self->driver->call.module_unload(self->module);
        driver_return(self->driver, before);
    }
    Py_XDECREF(self->driver);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef Module_members[] = {
    {"device", T_INT, offsetof(ModuleObject, device), READONLY, "Number of the GPU it is on."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Module_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.codegen._device.Module",
    .tp_basicsize = sizeof(ModuleObject),
    .tp_dealloc = (destructor)Module_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_members = Module_members,
    .tp_new = Module_new,
    .tp_doc = "A loaded image of kernels.",
};

int driver_prepare(void) { return pthread_atfork(NULL, NULL, become_child) ? -1 : 0; }

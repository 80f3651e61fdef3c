/* See library.h. */
#include "library.h"

#include <dlfcn.h>
#include <structmember.h>

#include "object_files.h"

/* Idle OpenMP workers live in the OpenMP runtime, which must outlast the last program. */
static void pin_thread_runtimes(void) {
    static const char *const names[] = {"libgomp.so.1", "libomp.so", "libomp.so.5", "libiomp5.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static int open_shared(LibraryObject *self, PyObject *path) {
    PyObject *bytes;
    if (!PyUnicode_FSConverter(path, &bytes)) return -1;
    self->opened = dlopen(PyBytes_AS_STRING(bytes), RTLD_NOW | RTLD_LOCAL);
    Py_DECREF(bytes);
    if (!self->opened) {
        PyErr_SetString(PyExc_OSError, dlerror());
        return -1;
    }
    return 0;
}

static int load_files(LibraryObject *self, PyObject *contents) {
    Py_ssize_t count = PyTuple_GET_SIZE(contents);
    ObjectFile *files = PyMem_Calloc((size_t)count + 1, sizeof *files);
    if (!files) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *content = PyTuple_GET_ITEM(contents, i);
        if (!PyBytes_Check(content)) {
            PyMem_Free(files);
            PyErr_Format(PyExc_TypeError, "Library: %R is no object file.  Expected bytes.",
                         (PyObject *)Py_TYPE(content));
            return -1;
        }
        files[i].content = (const unsigned char *)PyBytes_AS_STRING(content);
        files[i].size = (size_t)PyBytes_GET_SIZE(content);
    }
    const char *why, *detail;
    self->loaded = load_objects(files, (size_t)count, &why, &detail);
    PyMem_Free(files);
    if (!self->loaded) {
        PyErr_Format(PyExc_OSError, "an object file cannot be loaded: %s%s%s", why,
                     *detail ? ": " : "", detail);
        return -1;
    }
    return 0;
}

static PyObject *Library_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"code", NULL};
    PyObject *code;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Library", names, &code)) return NULL;
    LibraryObject *self = (LibraryObject *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    if ((PyTuple_Check(code) ? load_files(self, code) : open_shared(self, code)) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    pin_thread_runtimes();
    return (PyObject *)self;
}

static void Library_dealloc(LibraryObject *self) {
    if (self->weak_references) PyObject_ClearWeakRefs((PyObject *)self);
    if (self->opened) dlclose(self->opened);
    if (self->loaded) unload_objects(self->loaded);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

void *find_function(PyObject *library, const char *name) {
    const LibraryObject *self = (const LibraryObject *)library;
    void *found = self->loaded ? find_loaded(self->loaded, name) : dlsym(self->opened, name);
    if (!found) PyErr_Format(PyExc_OSError, "the code of a unit has no function %s", name);
    return found;
}

static PyObject *Library_address(PyObject *self, PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    void *found = text ? find_function(self, text) : NULL;
    return found ? PyLong_FromVoidPtr(found) : NULL;
}

static PyMethodDef Library_methods[] = {
    {"address", Library_address, METH_O, "Where a function of this name lies; OSError if nowhere."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject Library_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.codegen._runtime.Library",
    .tp_basicsize = sizeof(LibraryObject),
    .tp_dealloc = (destructor)Library_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_weaklistoffset = offsetof(LibraryObject, weak_references),
    .tp_methods = Library_methods,
    .tp_new = Library_new,
    .tp_doc = "Library(code)\n--\n\nThe code of a unit: path of a shared object, or object files.",
};

int add_library(PyObject *module) {
    if (PyType_Ready(&Library_Type) < 0) return -1;
    if (PyModule_AddObjectRef(module, "LOADS_OBJECTS", loads_objects ? Py_True : Py_False) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "Library", (PyObject *)&Library_Type);
}

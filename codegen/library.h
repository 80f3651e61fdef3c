/* The machine code of one unit, loaded: what a `Program` calls.
 *
 * Contract: `Library(path)` opens a shared object, `Library(objects)` loads object files that lie in
 * memory (object_files.h); both raise OSError where they cannot. The code stays while somebody holds
 * the library. Created by `codegen.compilers.compilation` and `codegen.compilers.toolchain`, held by programs (_runtime.c).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef struct {
    PyObject_HEAD
    void *opened; /* of dlopen, or NULL */
    struct LoadedObjects *loaded;
    PyObject *weak_references;
} LibraryObject;

extern PyTypeObject Library_Type;

/* A function of the unit; NULL, with an OSError, if there is none of that name. */
void *find_function(PyObject *library, const char *name);

/* 0, or -1 with an exception. */
int add_library(PyObject *module);

/* Memory of a call: results, temporaries, and where kernels report errors. See program.h. */
#include "program.h"

int make_outputs(ProgramObject *self, uint64_t *words, PyObject **arrays) {
    for (Py_ssize_t i = 0; i < self->output_count; i++) {
        const Spec *spec = &self->outputs[i];
        PyObject *shape = known_shape(spec, words);
        if (!shape) return -1;
        PyObject *given[2] = {shape, (PyObject *)spec->dtype};
        arrays[i] = PyObject_Vectorcall(self->empty, given, 2, NULL);
        Py_DECREF(shape);
        if (!arrays[i]) return -1;
        long long address = array_address(arrays[i]);
        if (PyErr_Occurred()) return -1;
        words[SLOT_FIRST + self->tensor_count + i] = (uint64_t)address;
    }
    return 0;
}

int take_workspace(ProgramObject *self, unsigned long long stream, size_t bytes,
                          Workspace *taken) {
    memset(taken, 0, sizeof *taken);
    if (!bytes) return 0;
    for (int i = 0; i < KEPT_WORKSPACES; i++) {
        Workspace *kept = &self->kept[i];
        if (!kept->memory || kept->stream != stream) continue;
        *taken = *kept;
        kept->memory = NULL;
        if (taken->bytes >= bytes) return 0;
        Py_CLEAR(taken->memory);
        break;
    }
    PyObject *size = PyLong_FromSize_t(bytes);
    PyObject *memory = size ? PyObject_CallOneArg(self->memory, size) : NULL;
    Py_XDECREF(size);
    PyObject *address = memory ? PyObject_GetAttrString(memory, "ptr") : NULL;
    if (!address) {
        Py_XDECREF(memory);
        return -1;
    }
    *taken = (Workspace){stream, memory, PyLong_AsUnsignedLongLongMask(address), bytes};
    Py_DECREF(address);
    return PyErr_Occurred() ? -1 : 0;
}

/* The last place holds what was kept last: streams come and go. */
void keep_workspace(ProgramObject *self, const Workspace *taken) {
    if (!taken->memory) return;
    int place = KEPT_WORKSPACES - 1;
    for (int i = KEPT_WORKSPACES - 1; i >= 0; i--)
        if (!self->kept[i].memory) place = i;
    PyObject *before = self->kept[place].memory;
    self->kept[place] = *taken;
    Py_XDECREF(before);
}

Status *take_status(ProgramObject *self) {
    DriverObject *driver = self->plan->module->driver;
    Status *status = self->free_status;
    if (!status) {
        status = PyMem_Calloc(1, sizeof *status);
        if (!status) return (Status *)PyErr_NoMemory();
        int code = driver->call.host_allocate((void **)&status->words, STATUS_WORDS * 8,
                                              HOST_PORTABLE | HOST_DEVICEMAP);
        const char *call = "cuMemHostAlloc";
        if (!code) {
            call = "cuEventCreate";
            code = driver->call.event_create(&status->event, EVENT_DISABLE_TIMING);
        }
        if (code) {
            if (status->words) driver->call.host_free(status->words);
            PyMem_Free(status);
            driver_failed(driver, call, code);
            return NULL;
        }
    } else {
        self->free_status = status->next;
    }
    memset(status->words, 0, STATUS_WORDS * 8);
    return status;
}

void give_status(ProgramObject *self, Status *status) {
    status->next = self->free_status;
    self->free_status = status;
}

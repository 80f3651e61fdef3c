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

void free_status(DriverObject *driver, Status *status) {
    if (status->event) driver->call.event_destroy(status->event);
    if (status->copy) driver->call.host_free(status->copy);
    if (status->address) driver->call.device_free(status->address);
    PyMem_Free(status);
}

/* What is zeroed on the default stream is so before any kernel runs: the stream is waited for. */
static int make_status(DriverObject *driver, Status *status, const char **failed) {
    const DriverFunctions *call = &driver->call;
    int code;
    *failed = "cuMemAlloc";
    if ((code = call->device_allocate(&status->address, STATUS_BYTES))) return code;
    *failed = "cuMemHostAlloc";
    if ((code = call->host_allocate((void **)&status->copy, STATUS_BYTES, HOST_PORTABLE)))
        return code;
    *failed = "cuEventCreate";
    if ((code = call->event_create(&status->event, EVENT_DISABLE_TIMING))) return code;
    *failed = "cuMemsetD8Async";
    if ((code = call->memset_bytes(status->address, 0, STATUS_BYTES, NULL))) return code;
    *failed = "cuStreamSynchronize";
    return call->stream_synchronize(NULL);
}

Status *take_status(ProgramObject *self) {
    DriverObject *driver = self->plan->module->driver;
    Status *status = self->free_status;
    if (status) {
        self->free_status = status->next;
        return status;
    }
    const char *failed;
    status = PyMem_Calloc(1, sizeof *status);
    if (!status) return (Status *)PyErr_NoMemory();
    int code = make_status(driver, status, &failed);
    if (!code) return status;
    free_status(driver, status);
    driver_failed(driver, failed, code);
    return NULL;
}

void give_status(ProgramObject *self, Status *status) {
    status->next = self->free_status;
    self->free_status = status;
}

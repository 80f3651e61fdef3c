/* Arguments of a call as words of its plan. See program.h. */
#include "program.h"

static PyObject *text_dtype, *text_shape, *text_strides, *text_data, *text_ptr, *text_device_id;

static int refuse(ProgramObject *self, Py_ssize_t position, PyObject *given, const char *expected) {
    PyErr_Format(PyExc_TypeError, "%U: argument %zd is %R.  Expected %s.", self->name, position,
                 (PyObject *)Py_TYPE(given), expected);
    return -1;
}

PyObject *known_shape(const Spec *spec, const uint64_t *words) {
    if (spec->shape) return Py_NewRef(spec->shape);
    PyObject *shape = PyTuple_New(spec->rank);
    for (int d = 0; shape && d < spec->rank; d++) {
        PyObject *size = PyLong_FromLongLong((long long)words[spec->sizes[d]]);
        if (!size) Py_CLEAR(shape);
        else PyTuple_SET_ITEM(shape, d, size);
    }
    return shape;
}

static int refuse_array(ProgramObject *self, Py_ssize_t position, PyObject *dtype, PyObject *shape,
                        const Spec *spec, const uint64_t *words) {
    PyObject *expected = known_shape(spec, words);
    if (expected)
        PyErr_Format(PyExc_TypeError,
                     "%U: argument %zd is an array of dtype %S and shape %S.  Expected dtype %S "
                     "and shape %S.",
                     self->name, position, dtype, shape, (PyObject *)spec->dtype, expected);
    Py_XDECREF(expected);
    return -1;
}

/* Item of a tuple of integers. */
static int64_t item(PyObject *tuple, int place) {
    return PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, place));
}

static int has_shape(PyObject *shape, const Spec *spec, const uint64_t *words) {
    if (!PyTuple_Check(shape) || PyTuple_GET_SIZE(shape) != spec->rank) return 0;
    for (int d = 0; d < spec->rank; d++)
        if (item(shape, d) != (int64_t)words[spec->sizes[d]]) return 0;
    return 1;
}

/* Strides of dims of size 1 mean nothing, nor do those of an array without elements. */
static int has_strides(PyObject *strides, const Spec *spec, const uint64_t *words) {
    int64_t step = PyDataType_ELSIZE(spec->dtype);
    if (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != spec->rank) return 0;
    for (int d = 0; d < spec->rank; d++)
        if (words[spec->sizes[d]] == 0) return 1;
    for (int d = spec->rank - 1; d >= 0; d--) {
        int64_t size = (int64_t)words[spec->sizes[d]];
        int64_t expected = spec->any_strides ? step : spec->strides[d];
        if (size > 1 && item(strides, d) != expected && expected != INT64_MIN) return 0;
        step *= size;
    }
    return 1;
}

/* `object.data.<name>` as an integer; -1 with an exception. */
static long long data_number(PyObject *array, PyObject *name) {
    PyObject *data = PyObject_GetAttr(array, text_data);
    PyObject *number = data ? PyObject_GetAttr(data, name) : NULL;
    long long value = number ? (long long)PyLong_AsUnsignedLongLongMask(number) : -1;
    Py_XDECREF(data);
    Py_XDECREF(number);
    return value;
}

/* The address of an array that has the layout of a spec, or of a copy, which *held owns. */
static int address_in_layout(ProgramObject *self, Py_ssize_t position, PyObject *array,
                             const Spec *spec, const uint64_t *words, PyObject **held,
                             uint64_t *address) {
    PyObject *strides = PyObject_GetAttr(array, text_strides);
    if (!strides) return -1;
    int fits = has_strides(strides, spec, words);
    Py_DECREF(strides);
    if (!fits && !spec->any_strides) {
        PyErr_Format(PyExc_ValueError,
                     "%U: argument %zd does not have the strides that code was generated for.",
                     self->name, position);
        return -1;
    }
    if (!fits && !(array = *held = PyObject_CallOneArg(self->contiguous, array))) return -1;
    *address = (uint64_t)data_number(array, text_ptr);
    if (PyErr_Occurred()) return -1;
    if (*address % (uint64_t)PyDataType_ELSIZE(spec->dtype)) {
        PyErr_Format(PyExc_ValueError,
                     "%U: argument %zd lies at an address that is no multiple of its item size.  "
                     "Expected an aligned array; copy it.",
                     self->name, position);
        return -1;
    }
    return 0;
}

static int tensor_address(ProgramObject *self, Py_ssize_t position, PyObject *array,
                          const Spec *spec, const uint64_t *words, PyObject **held,
                          uint64_t *address) {
    if (!PyObject_TypeCheck(array, self->array_type))
        return refuse(self, position, array, "an array on the GPU");
    PyObject *dtype = PyObject_GetAttr(array, text_dtype);
    PyObject *shape = dtype ? PyObject_GetAttr(array, text_shape) : NULL;
    int done = -1;
    if (!shape) goto end;
    int is_same = dtype == (PyObject *)spec->dtype ||
                  (PyArray_DescrCheck(dtype) &&
                   PyArray_EquivTypes((PyArray_Descr *)dtype, spec->dtype));
    if (!is_same || !has_shape(shape, spec, words)) {
        refuse_array(self, position, dtype, shape, spec, words);
        goto end;
    }
    long long device = data_number(array, text_device_id);
    if (PyErr_Occurred()) goto end;
    if (device != self->plan->module->device) {
        PyErr_Format(PyExc_ValueError, "%U: argument %zd is on cuda:%lld.  Expected cuda:%d.",
                     self->name, position, device, self->plan->module->device);
        goto end;
    }
    done = address_in_layout(self, position, array, spec, words, held, address);
end:
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    return done;
}

static int is_alive(PyObject *reference, PyObject *array) {
#if PY_VERSION_HEX >= 0x030d0000
    PyObject *found;
    if (PyWeakref_GetRef(reference, &found) <= 0) return 0;
    Py_DECREF(found); /* the caller owns `array` */
    return found == array;
#else
    return PyWeakref_GET_OBJECT(reference) == array;
#endif
}

/* As tensor_address, without asking an array that was there before. Nobody changes the shape of an
 * array in place, as tensors rely on, too (eager/tensor.h). */
static int seen_address(ProgramObject *self, Py_ssize_t position, PyObject *array, const Spec *spec,
                        const uint64_t *words, PyObject **held, Seen *seen, uint64_t *address) {
    if (seen->alive && is_alive(seen->alive, array)) {
        *address = seen->address;
        return 0;
    }
    if (tensor_address(self, position, array, spec, words, held, address) < 0) return -1;
    Py_CLEAR(seen->alive);
    /* Of arrays that come twice only: most others are gone after the call. */
    if (seen->last == array && !*held && spec->shape) {
        seen->alive = PyWeakref_NewRef(array, NULL);
        if (!seen->alive) PyErr_Clear();
        seen->address = *address;
    }
    seen->last = array;
    return 0;
}

static int scalar_word(ProgramObject *self, Py_ssize_t position, PyObject *given, int kind,
                       uint64_t *word) {
    if (kind == ARGUMENT_FLOATING) {
        double value = PyFloat_CheckExact(given) ? PyFloat_AS_DOUBLE(given) : PyFloat_AsDouble(given);
        memcpy(word, &value, sizeof value);
        return value == -1.0 && PyErr_Occurred() ? -1 : 0;
    }
    if (kind == ARGUMENT_BOOL) {
        int truth = PyObject_IsTrue(given);
        *word = (uint64_t)truth;
        return truth < 0 ? -1 : 0;
    }
    PyObject *index = PyNumber_Index(given);
    if (!index) {
        PyErr_Clear();
        return refuse(self, position, given, "an integer");
    }
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow) {
        PyErr_Format(PyExc_OverflowError, "%U: argument %zd does not fit in int64.", self->name,
                     position);
        return -1;
    }
    *word = (uint64_t)value;
    return value == -1 && PyErr_Occurred() ? -1 : 0;
}

/* A symbolic size: the number itself, or a dimension of an array. */
static int symbol_value(ProgramObject *self, const Symbol *symbol, PyObject *given,
                        uint64_t *word) {
    const Spec *spec = &self->arguments[symbol->argument];
    if (symbol->dim < 0) {
        if (scalar_word(self, symbol->argument, given, spec->kind, word) < 0) return -1;
    } else {
        PyObject *shape = PyObject_GetAttr(given, text_shape);
        if (!shape) PyErr_Clear();
        int fits = shape && PyTuple_Check(shape) && PyTuple_GET_SIZE(shape) == spec->rank;
        if (fits) *word = (uint64_t)item(shape, symbol->dim);
        Py_XDECREF(shape);
        if (!fits) return refuse(self, symbol->argument, given, "an array of other dimensions");
    }
    if ((int64_t)*word >= symbol->low && (int64_t)*word <= symbol->high) return 0;
    PyErr_Format(PyExc_ValueError,
                 "%U: argument %zd has the size %lld.  Expected a size in [%lld, %lld].", self->name,
                 symbol->argument, (long long)*word, (long long)symbol->low,
                 (long long)symbol->high);
    return -1;
}

int read_arguments(ProgramObject *self, PyObject *const *args, uint64_t *words,
                          PyObject **held) {
    int scalar = self->scalars_first, tensor = 0;
    for (Py_ssize_t k = 0; k < self->symbol_count; k++) {
        const Symbol *symbol = &self->symbols[k];
        if (symbol_value(self, symbol, args[symbol->argument], &words[symbol->slot]) < 0) return -1;
    }
    plan_compute(self->plan, words);
    for (Py_ssize_t i = 0; i < self->argument_count; i++) {
        const Spec *spec = &self->arguments[i];
        if (spec->kind != ARGUMENT_TENSOR) {
            if (scalar_word(self, i, args[i], spec->kind, &words[scalar++]) < 0) return -1;
            continue;
        }
        if (seen_address(self, i, args[i], spec, words, &held[tensor], &self->seen[tensor],
                         &words[SLOT_FIRST + tensor]) < 0)
            return -1;
        tensor++;
    }
    return 0;
}

long long array_address(PyObject *array) { return data_number(array, text_ptr); }

int arguments_prepare(void) {
    text_dtype = PyUnicode_InternFromString("dtype");
    text_shape = PyUnicode_InternFromString("shape");
    text_strides = PyUnicode_InternFromString("strides");
    text_data = PyUnicode_InternFromString("data");
    text_ptr = PyUnicode_InternFromString("ptr");
    text_device_id = PyUnicode_InternFromString("device_id");
    return text_dtype && text_shape && text_strides && text_data && text_ptr && text_device_id ? 0
                                                                                              : -1;
}

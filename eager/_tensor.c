/* TensorBase, Storage and the grad mode of each thread: see tensor.h for the layout.
 *
 * Contract: fields are changed through the setters and functions below, which keep the invariants
 * of tensor.h. Policy (what an operation records, what an error says about autograd) lives in the
 * Python modules next to this file; they register the few objects that C needs with `register`.
 * Called by dynajit.eager (everything) and dynajit.capture (through the capsule).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include "tensor.h"

/* What the Python side registers, once. All borrowed by readers, owned here. */
static PyTypeObject *tensor_type = NULL; /* class Tensor */
static PyTypeObject *size_type = NULL;   /* class Size(tuple) */
static PyObject *dtype_table = NULL;     /* dict: numpy dtype -> DType */
static PyObject *cpu_device = NULL;      /* Device("cpu") */
static PyObject *device_of = NULL;       /* callable: foreign array -> Device */
static PyObject *refresh_view = NULL;    /* callable: tensor -> None, see tensor.h on views */
static PyTypeObject *mirrored_type = NULL; /* class MirroredArray */
static PyObject *autograd_error = NULL;  /* dynajit.core.errors.AutogradError */
static PyObject *argument_error = NULL;  /* dynajit.core.errors.ArgumentError */
static PyObject *no_bool_error = NULL;   /* dynajit.core.errors.ArgumentRuntimeError */
static PyObject *dtype_of_type_number[NPY_NTYPES_LEGACY];

enum { KNOWN_DEVICES = 64 };
static PyObject *gpu_devices[KNOWN_DEVICES]; /* Device("cuda", i) of those met so far */

static uint64_t metadata_epoch = 1;
static uint64_t storages_made = 0;
static _Thread_local GradMode grad_mode = {1, 0, 0, 0, 0};

static PyTypeObject Storage_Type;
static PyTypeObject TensorBase_Type;

#define TensorBase_Check(object) PyObject_TypeCheck(object, &TensorBase_Type)

/* ---- Storage ------------------------------------------------------------------------------- */

static StorageObject *
storage_create(void)
{
    StorageObject *self = PyObject_New(StorageObject, &Storage_Type);
    if (self != NULL) {
        self->version = 0;
        self->number = storages_made++;
        self->is_inference = grad_mode.inference_enabled;
        self->weakrefs = NULL;
    }
    return self;
}

static PyObject *
storage_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_GET_SIZE(args) || (kwargs != NULL && PyDict_GET_SIZE(kwargs))) {
        PyErr_SetString(PyExc_TypeError, "Storage() takes no arguments");
        return NULL;
    }
    return (PyObject *)storage_create();
}

static void
storage_dealloc(StorageObject *self)
{
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    PyObject_Free(self);
}

static PyObject *
storage_get_version(StorageObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(self->version);
}

static PyObject *
storage_get_number(StorageObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(self->number);
}

static PyObject *
storage_get_is_inference(StorageObject *self, void *closure)
{
    return PyBool_FromLong(self->is_inference);
}

static int
storage_set_version(StorageObject *self, PyObject *value, void *closure)
{
    if (value == NULL) {
        PyErr_SetString(PyExc_AttributeError, "version cannot be deleted");
        return -1;
    }
    unsigned long long version = PyLong_AsUnsignedLongLong(value);
    if (version == (unsigned long long)-1 && PyErr_Occurred()) {
        return -1;
    }
    self->version = version;
    return 0;
}

static PyGetSetDef storage_getset[] = {
    {"version", (getter)storage_get_version, (setter)storage_set_version,
     "Number of in-place writes so far.", NULL},
    {"number", (getter)storage_get_number, NULL, "How many storages were made before.", NULL},
    {"is_inference", (getter)storage_get_is_inference, NULL, "Was it made in inference mode?", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject Storage_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.eager._tensor.Storage",
    .tp_doc = "The version counter that a tensor and all its views share.",
    .tp_basicsize = sizeof(StorageObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = storage_new,
    .tp_dealloc = (destructor)storage_dealloc,
    .tp_weaklistoffset = offsetof(StorageObject, weakrefs),
    .tp_getset = storage_getset,
};

/* ---- arrays on a GPU ----------------------------------------------------------------------- */

static void
layout_free(GpuLayout *layout)
{
    if (layout != NULL) {
        Py_XDECREF(layout->dtype);
        PyMem_Free(layout);
    }
}

/* An integer attribute of an attribute: `array.data.ptr`. -1 with an exception on error. */
static long long
number_of(PyObject *owner, const char *name)
{
    PyObject *number = PyObject_GetAttrString(owner, name);
    long long value = number == NULL ? -1 : PyLong_AsLongLong(number);
    Py_XDECREF(number);
    return value;
}

static int
read_place(GpuLayout *layout, PyObject *array)
{
    PyObject *pointer = PyObject_GetAttrString(array, "data");
    if (pointer == NULL) {
        return -1;
    }
    layout->data = (char *)(intptr_t)number_of(pointer, "ptr");
    layout->device = PyErr_Occurred() ? -1 : (int)number_of(pointer, "device_id");
    Py_DECREF(pointer);
    return PyErr_Occurred() ? -1 : 0;
}

static int
read_sizes(GpuLayout *layout, PyObject *shape, PyObject *strides)
{
    Py_ssize_t expected = layout->item_size;
    layout->is_contiguous = 1;
    for (int d = layout->rank - 1; d >= 0; d--) {
        layout->sizes[d] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, d));
        layout->strides[d] = PyLong_AsSsize_t(PyTuple_GET_ITEM(strides, d));
        if (layout->sizes[d] != 1 && layout->strides[d] != expected) {
            layout->is_contiguous = 0;
        }
        expected *= layout->sizes[d];
    }
    for (int d = 0; d < layout->rank; d++) {
        layout->is_contiguous |= layout->sizes[d] == 0;
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* The layout of an array of CuPy; NULL with an exception for other objects. */
static GpuLayout *
layout_of(PyObject *array)
{
    GpuLayout *layout = NULL;
    PyObject *shape = PyObject_GetAttrString(array, "shape");
    PyObject *strides = shape == NULL ? NULL : PyObject_GetAttrString(array, "strides");
    PyObject *dtype = strides == NULL ? NULL : PyObject_GetAttrString(array, "dtype");
    if (dtype == NULL) {
        goto done;
    }
    if (!PyTuple_Check(shape) || !PyTuple_Check(strides) || !PyArray_DescrCheck(dtype) ||
        PyTuple_GET_SIZE(shape) != PyTuple_GET_SIZE(strides)) {
        PyErr_SetString(PyExc_TypeError, "not an array of CuPy");
        goto done;
    }
    Py_ssize_t rank = PyTuple_GET_SIZE(shape);
    layout = PyMem_Calloc(1, sizeof(GpuLayout) + 2 * rank * sizeof(Py_ssize_t));
    if (layout == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    layout->rank = (int)rank;
    layout->strides = layout->sizes + rank;
    layout->dtype = Py_NewRef(dtype);
    layout->dtype_number = ((PyArray_Descr *)dtype)->type_num;
    layout->item_size = PyDataType_ELSIZE((PyArray_Descr *)dtype);
    layout->is_mirrored = Py_IS_TYPE(array, mirrored_type);
    if (read_sizes(layout, shape, strides) < 0 || read_place(layout, array) < 0) {
        layout_free(layout);
        layout = NULL;
    }
    else {
        layout->is_on_host = layout->is_mirrored && layout->device == -1;
    }
done:
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    Py_XDECREF(dtype);
    return layout;
}

/* Reads what can be the array of a tensor into *layout: NULL for one of NumPy. -1 with an
 * exception that names who asked for other objects. */
static int
read_array(PyObject *array, GpuLayout **layout, const char *what)
{
    *layout = NULL;
    if (PyArray_Check(array) || (*layout = layout_of(array)) != NULL) {
        return 0;
    }
    if (PyErr_ExceptionMatches(PyExc_MemoryError)) {
        return -1;
    }
    PyErr_Clear();
    PyErr_Format(argument_error, "%s: expected a NumPy or CuPy array, got %s", what,
                 Py_TYPE(array)->tp_name);
    return -1;
}

/* ---- TensorBase: life ---------------------------------------------------------------------- */

/* A new tensor of class `type`; shares `storage` if given. Steals nothing. `what` is who asked. */
static TensorObject *
tensor_create(PyTypeObject *type, PyObject *array, StorageObject *storage, const char *what)
{
    GpuLayout *layout;
    if (read_array(array, &layout, what) < 0) {
        return NULL;
    }
    if (storage != NULL) {
        Py_INCREF(storage);
    }
    else if ((storage = storage_create()) == NULL) {
        layout_free(layout);
        return NULL;
    }
    TensorObject *self = (TensorObject *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_DECREF(storage);
        layout_free(layout);
        return NULL;
    }
    /* tp_alloc zeroed every other field */
    self->array = Py_NewRef(array);
    self->storage = storage;
    self->view_version = storage->version;
    self->gpu = layout;
    return self;
}

/* Let the tensor hold another array. */
static int
replace_array(TensorObject *self, PyObject *array, const char *what)
{
    GpuLayout *layout;
    if (read_array(array, &layout, what) < 0) {
        return -1;
    }
    metadata_epoch++;
    layout_free(self->gpu);
    self->gpu = layout;
    Py_SETREF(self->array, Py_NewRef(array));
    return 0;
}

static PyObject *
tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_GET_SIZE(args) != 1 || (kwargs != NULL && PyDict_GET_SIZE(kwargs))) {
        PyErr_SetString(argument_error, "TensorBase(array): expected exactly one array");
        return NULL;
    }
    return (PyObject *)tensor_create(type, PyTuple_GET_ITEM(args, 0), NULL, "TensorBase(array)");
}

/* Subclasses choose their own constructor arguments in __new__, so __init__ accepts anything. */
static int
tensor_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return 0;
}

static int
tensor_traverse(TensorObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->array);
    Py_VISIT(self->grad);
    Py_VISIT(self->grad_fn);
    Py_VISIT(self->hooks);
    Py_VISIT(self->base);
    Py_VISIT(self->replay);
    return 0;
}

/* The array stays: it cannot be part of a cycle that only the tensor breaks (an object array is
 * no tensor dtype), and `array` is never NULL in a tensor that a finalizer may still see. */
static int
tensor_clear(TensorObject *self)
{
    Py_CLEAR(self->grad);
    Py_CLEAR(self->grad_fn);
    Py_CLEAR(self->hooks);
    Py_CLEAR(self->base);
    Py_CLEAR(self->replay);
    return 0;
}

static void
tensor_dealloc(TensorObject *self)
{
    PyObject_GC_UnTrack(self);
    /* Chains tensor -> grad_fn -> saved tensor -> ... are as long as the program. */
    Py_TRASHCAN_BEGIN(self, tensor_dealloc)
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    tensor_clear(self);
    Py_CLEAR(self->array);
    Py_CLEAR(self->storage);
    layout_free(self->gpu);
    Py_TYPE(self)->tp_free((PyObject *)self);
    Py_TRASHCAN_END
}

/* ---- what the array is, wherever it lives ---------------------------------------------------- */

static PyArray_Descr *
descr_of(TensorObject *self)
{
    return self->gpu == NULL ? PyArray_DESCR((PyArrayObject *)self->array)
                             : (PyArray_Descr *)self->gpu->dtype;
}

static int
rank_of(TensorObject *self)
{
    return self->gpu == NULL ? PyArray_NDIM((PyArrayObject *)self->array) : self->gpu->rank;
}

static const npy_intp *
sizes_of(TensorObject *self)
{
    return self->gpu == NULL ? PyArray_DIMS((PyArrayObject *)self->array) : self->gpu->sizes;
}

/* Which GPU the tensor lives on, -1: the CPU. */
static int
device_number(TensorObject *self)
{
    return self->gpu == NULL ? -1 : self->gpu->device;
}

/* ---- TensorBase: attributes ---------------------------------------------------------------- */

/* Bring grad_fn and requires_grad of a view up to date after its base was rewritten. */
static int
tensor_refresh(TensorObject *self)
{
    if (self->replay == NULL || self->view_version == self->storage->version) {
        return 0;
    }
    self->view_version = self->storage->version; /* first: the callable reads both attributes */
    PyObject *done = PyObject_CallOneArg(refresh_view, (PyObject *)self);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int
refuse_delete(PyObject *value, const char *name)
{
    if (value != NULL) {
        return 0;
    }
    PyErr_Format(PyExc_AttributeError, "%s of a tensor cannot be deleted", name);
    return -1;
}

/* Whether the tensor holds no array of values: see dynajit.core.arrays.mirrored_arrays. */
static int
is_mirrored(TensorObject *self)
{
    return self->gpu != NULL && self->gpu->is_mirrored;
}

static PyObject *
tensor_get_array(TensorObject *self, void *closure)
{
    return is_mirrored(self) ? PyObject_CallMethod(self->array, "values", NULL)
                             : Py_NewRef(self->array);
}

static PyObject *
tensor_get_held(TensorObject *self, void *closure)
{
    return Py_NewRef(self->array);
}

static PyObject *
tensor_get_memory(TensorObject *self, void *closure)
{
    return is_mirrored(self) ? PyObject_GetAttrString(self->array, "memory")
                             : Py_NewRef(self->array);
}

static PyObject *
tensor_get_is_mirrored(TensorObject *self, void *closure)
{
    return PyBool_FromLong(is_mirrored(self));
}

static int
tensor_set_array(TensorObject *self, PyObject *value, void *closure)
{
    if (refuse_delete(value, "array") < 0) {
        return -1;
    }
    return replace_array(self, value, "array");
}

static PyObject *
tensor_get_storage(TensorObject *self, void *closure)
{
    return Py_NewRef((PyObject *)self->storage);
}

static int
tensor_set_storage(TensorObject *self, PyObject *value, void *closure)
{
    if (refuse_delete(value, "_storage") < 0) {
        return -1;
    }
    if (!Py_IS_TYPE(value, &Storage_Type)) {
        PyErr_Format(argument_error, "storage: expected a Storage, got %s",
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    StorageObject *old = self->storage;
    self->storage = (StorageObject *)Py_NewRef(value);
    self->view_version = self->storage->version;
    Py_DECREF(old);
    return 0;
}

static PyObject *
tensor_get_requires_grad(TensorObject *self, void *closure)
{
    if (tensor_refresh(self) < 0) {
        return NULL;
    }
    return PyBool_FromLong(self->requires_grad);
}

/* True if elements are floating or complex: only then derivatives exist. */
static int
is_differentiable(TensorObject *self)
{
    int number = self->gpu == NULL ? PyArray_TYPE((PyArrayObject *)self->array)
                                   : self->gpu->dtype_number;
    return PyTypeNum_ISFLOAT(number) || PyTypeNum_ISCOMPLEX(number) ||
           PyTypeNum_ISUSERDEF(number); /* bfloat16 */
}

static int
tensor_set_requires_grad(TensorObject *self, PyObject *value, void *closure)
{
    if (refuse_delete(value, "requires_grad") < 0) {
        return -1;
    }
    if (!PyBool_Check(value)) {
        PyErr_Format(no_bool_error, "requires_grad must be a bool, got %s",
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    if (tensor_refresh(self) < 0) {
        return -1;
    }
    char wanted = value == Py_True;
    if (wanted && self->storage->is_inference && !grad_mode.inference_enabled) {
        PyErr_SetString(autograd_error,
                        "requires_grad=True of a tensor that was made in inference mode, outside "
                        "of it, is not allowed.  Use a clone().");
        return -1;
    }
    if (self->grad_fn != NULL && !wanted) {
        PyErr_SetString(autograd_error,
                        "you can only change requires_grad flags of leaf variables. If you want "
                        "to use a computed variable in a subgraph that doesn't require "
                        "differentiation use var_no_grad = var.detach().");
        return -1;
    }
    if (wanted && !is_differentiable(self)) {
        PyErr_SetString(autograd_error,
                        "only Tensors of floating point and complex dtype can require gradients");
        return -1;
    }
    if (self->requires_grad != wanted) {
        self->requires_grad = wanted;
        metadata_epoch++;
    }
    return 0;
}

static PyObject *tensor_get_shape(TensorObject *self, void *closure);

static PyObject *
or_none(PyObject *object)
{
    return Py_NewRef(object == NULL ? Py_None : object);
}

/* Store `value` in a field; None empties it. */
static int
set_optional(PyObject **field, PyObject *value)
{
    Py_XSETREF(*field, value == NULL || value == Py_None ? NULL : Py_NewRef(value));
    return 0;
}

static PyObject *
tensor_get_grad(TensorObject *self, void *closure)
{
    if (self->grad != NULL) {
        return Py_NewRef(self->grad);
    }
    if (self->requires_grad && !self->retains_grad) {
        if (tensor_refresh(self) < 0) {
            return NULL;
        }
        if (self->grad_fn != NULL &&
            PyErr_WarnEx(PyExc_UserWarning,
                         "The .grad attribute of a Tensor that is not a leaf Tensor is being "
                         "accessed. Its .grad attribute won't be populated during "
                         "autograd.backward(). If you indeed want the .grad field to be populated "
                         "for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you "
                         "access the non-leaf Tensor by mistake, make sure you access the leaf "
                         "Tensor instead.",
                         1) < 0) {
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

/* The same for the library's own questions: without a warning. */
static PyObject *
tensor_get_known_grad(TensorObject *self, void *closure)
{
    return or_none(self->grad);
}

/* Whether a gradient has the sizes of the tensor; -1 with an exception on error. Classes of tensors
 * say theirs themselves: a sparse one holds an empty array. */
static int
has_sizes_of(TensorObject *self, PyObject *given)
{
    TensorObject *grad = (TensorObject *)given;
    if (Py_IS_TYPE(given, tensor_type)) {
        return rank_of(self) == rank_of(grad) &&
               !memcmp(sizes_of(self), sizes_of(grad), rank_of(self) * sizeof(npy_intp));
    }
    PyObject *own = tensor_get_shape(self, NULL);
    PyObject *shape = own == NULL ? NULL : PyObject_GetAttrString(given, "shape");
    int same = shape == NULL ? -1 : PyObject_RichCompareBool(own, shape, Py_EQ);
    Py_XDECREF(own);
    Py_XDECREF(shape);
    return same;
}

static int
tensor_set_grad(TensorObject *self, PyObject *value, void *closure)
{
    if (value == NULL || value == Py_None) {
        return set_optional(&self->grad, NULL);
    }
    if (!TensorBase_Check(value)) {
        PyErr_Format(argument_error,
                     "assigned grad expected to be a Tensor or None but got grad of type %s",
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    if (value == (PyObject *)self) {
        PyErr_SetString(autograd_error, "can't assign Tensor as its own grad");
        return -1;
    }
    TensorObject *given = (TensorObject *)value;
    if (device_number(given) != device_number(self)) {
        PyErr_SetString(autograd_error, "assigned grad has data located on a different device");
        return -1;
    }
    if (!PyArray_EquivTypes(descr_of(self), descr_of(given))) {
        PyErr_SetString(autograd_error, "assigned grad has data of a different type");
        return -1;
    }
    int same = has_sizes_of(self, value);
    if (same < 1) {
        if (same == 0) {
            PyErr_SetString(autograd_error, "assigned grad has data of a different size");
        }
        return -1;
    }
    return set_optional(&self->grad, value);
}

static PyObject *
tensor_get_grad_fn(TensorObject *self, void *closure)
{
    if (tensor_refresh(self) < 0) {
        return NULL;
    }
    return or_none(self->grad_fn);
}

static PyObject *
tensor_get_is_leaf(TensorObject *self, void *closure)
{
    if (tensor_refresh(self) < 0) {
        return NULL;
    }
    return PyBool_FromLong(self->grad_fn == NULL);
}

static PyObject *
tensor_get_output_index(TensorObject *self, void *closure)
{
    return PyLong_FromUnsignedLong(self->output_index);
}

static PyObject *
tensor_get_hooks(TensorObject *self, void *closure)
{
    return or_none(self->hooks);
}

static int
tensor_set_hooks(TensorObject *self, PyObject *value, void *closure)
{
    return set_optional(&self->hooks, value);
}

static PyObject *
tensor_get_retains_grad(TensorObject *self, void *closure)
{
    return PyBool_FromLong(self->retains_grad);
}

static int
tensor_set_retains_grad(TensorObject *self, PyObject *value, void *closure)
{
    self->retains_grad = value == Py_True;
    return 0;
}

static PyObject *
tensor_get_base(TensorObject *self, void *closure)
{
    return or_none(self->base);
}

static PyObject *
tensor_get_replay(TensorObject *self, void *closure)
{
    return or_none(self->replay);
}

static PyObject *
tensor_get_is_part(TensorObject *self, void *closure)
{
    return PyBool_FromLong(self->is_part);
}

static PyObject *
tensor_get_version(TensorObject *self, void *closure)
{
    if (self->storage->is_inference) {
        PyErr_SetString(autograd_error, "Inference tensors do not track version counter.");
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(self->storage->version);
}

static PyObject *
tensor_get_shape(TensorObject *self, void *closure)
{
    int rank = rank_of(self);
    const npy_intp *sizes = sizes_of(self);
    /* what tuple.__new__ does for a subclass: allocate, then fill */
    PyObject *size = size_type->tp_alloc(size_type, rank);
    if (size == NULL) {
        return NULL;
    }
    for (int d = 0; d < rank; d++) {
        PyObject *item = PyLong_FromSsize_t(sizes[d]);
        if (item == NULL) {
            Py_DECREF(size);
            return NULL;
        }
        PyTuple_SET_ITEM(size, d, item);
    }
    return size;
}

static PyObject *
dtype_from_descr(PyArray_Descr *descr)
{
    int number = descr->type_num;
    if (number >= 0 && number < NPY_NTYPES_LEGACY && dtype_of_type_number[number] != NULL) {
        return Py_NewRef(dtype_of_type_number[number]);
    }
    PyObject *found = PyDict_GetItemWithError(dtype_table, (PyObject *)descr);
    if (found == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_Format(argument_error, "NumPy dtype %R has no tensor dtype", descr);
        }
        return NULL;
    }
    if (number >= 0 && number < NPY_NTYPES_LEGACY) {
        dtype_of_type_number[number] = Py_NewRef(found);
    }
    return Py_NewRef(found);
}

static PyObject *
tensor_get_dtype(TensorObject *self, void *closure)
{
    return dtype_from_descr(descr_of(self));
}

static PyObject *
device_of_memory(TensorObject *self)
{
    PyObject *memory = tensor_get_memory(self, NULL);
    PyObject *device = memory == NULL ? NULL : PyObject_CallOneArg(device_of, memory);
    Py_XDECREF(memory);
    return device;
}

static PyObject *
tensor_get_device(TensorObject *self, void *closure)
{
    if (self->gpu == NULL) {
        return Py_NewRef(cpu_device);
    }
    int number = self->gpu->device;
    if (self->gpu->is_on_host) {
        return Py_NewRef(cpu_device);
    }
    if (number < 0 || number >= KNOWN_DEVICES) {
        return device_of_memory(self);
    }
    if (gpu_devices[number] == NULL) {
        gpu_devices[number] = device_of_memory(self);
    }
    return Py_XNewRef(gpu_devices[number]);
}

static PyObject *
tensor_get_ndim(TensorObject *self, void *closure)
{
    return PyLong_FromLong(rank_of(self));
}

static PyGetSetDef tensor_getset[] = {
    {"array", (getter)tensor_get_array, (setter)tensor_set_array,
     "The NumPy or CuPy array with the elements; of a conjugate view a copy to be read.", NULL},
    {"_held", (getter)tensor_get_held, (setter)tensor_set_array,
     "The array, or the MirroredArray of a conjugate view.", NULL},
    {"_memory", (getter)tensor_get_memory, NULL,
     "The array that shares its memory with views, whatever the elements mean.", NULL},
    {"_is_mirrored", (getter)tensor_get_is_mirrored, NULL,
     "Whether the memory holds conjugates or negatives of the elements.", NULL},
    {"_storage", (getter)tensor_get_storage, (setter)tensor_set_storage,
     "The Storage shared with views.", NULL},
    {"requires_grad", (getter)tensor_get_requires_grad, (setter)tensor_set_requires_grad,
     "True if gradients flow to this tensor.", NULL},
    {"grad", (getter)tensor_get_grad, (setter)tensor_set_grad,
     "The accumulated gradient, or None; asking a tensor whose gradient is not kept gives a "
     "warning.",
     NULL},
    {"_grad", (getter)tensor_get_known_grad, (setter)tensor_set_grad,
     "`grad` by the name that optimizers use; it gives no warning.", NULL},
    {"grad_fn", (getter)tensor_get_grad_fn, NULL, "The tape node that made it, or None.", NULL},
    {"is_leaf", (getter)tensor_get_is_leaf, NULL, "True if no tape node made it.", NULL},
    {"output_index", (getter)tensor_get_output_index, NULL, "Which output of grad_fn it is.",
     NULL},
    {"output_nr", (getter)tensor_get_output_index, NULL, "The same by PyTorch's name.", NULL},
    {"hooks", (getter)tensor_get_hooks, (setter)tensor_set_hooks,
     "Dict of gradient hooks of a leaf, or None.", NULL},
    {"retains_grad", (getter)tensor_get_retains_grad, (setter)tensor_set_retains_grad,
     "True if backward keeps the gradient of this non-leaf.", NULL},
    {"_base", (getter)tensor_get_base, NULL, "The tensor this one is a view of, or None.", NULL},
    {"_replay", (getter)tensor_get_replay, NULL,
     "The (row, attributes) pairs that lead from _base to this view, or None.", NULL},
    {"_is_part", (getter)tensor_get_is_part, NULL,
     "True of one of several views that one call gave, and of its views.", NULL},
    {"_version", (getter)tensor_get_version, NULL, "Number of in-place writes to the storage.",
     NULL},
    {"shape", (getter)tensor_get_shape, NULL, "Size of each dimension.", NULL},
    {"dtype", (getter)tensor_get_dtype, NULL, "Element type.", NULL},
    {"device", (getter)tensor_get_device, NULL, "Where the elements live.", NULL},
    {"ndim", (getter)tensor_get_ndim, NULL, "Number of dimensions.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject TensorBase_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.eager._tensor.TensorBase",
    .tp_doc = "The C part of a tensor: array, storage, gradient facts.",
    .tp_basicsize = sizeof(TensorObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = tensor_new,
    .tp_init = tensor_init,
    .tp_dealloc = (destructor)tensor_dealloc,
    .tp_traverse = (traverseproc)tensor_traverse,
    .tp_clear = (inquiry)tensor_clear,
    .tp_weaklistoffset = offsetof(TensorObject, weakrefs),
    .tp_getset = tensor_getset,
};

/* ---- module functions ---------------------------------------------------------------------- */

static TensorObject *
as_tensor(PyObject *object)
{
    if (!TensorBase_Check(object)) {
        PyErr_Format(argument_error, "expected a Tensor, got %s", Py_TYPE(object)->tp_name);
        return NULL;
    }
    return (TensorObject *)object;
}

static PyObject *
wrap(PyObject *array)
{
    if (tensor_type == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "dynajit.eager.tensor.tensor has not been imported");
        return NULL;
    }
    if (!PyArray_Check(array)) {
        if (PyArray_CheckScalar(array)) { /* NumPy turns zero-dim results into scalars */
            PyObject *zero_dim = PyArray_FromScalar(array, NULL);
            if (zero_dim == NULL) {
                return NULL;
            }
            PyObject *tensor = (PyObject *)tensor_create(tensor_type, zero_dim, NULL, "wrap");
            Py_DECREF(zero_dim);
            return tensor;
        }
    }
    return (PyObject *)tensor_create(tensor_type, array, NULL, "wrap");
}

static PyObject *
module_wrap(PyObject *module, PyObject *array)
{
    return wrap(array);
}

/* arrays(inputs): list of the tensors' arrays; anything else stays. */
static PyObject *
module_arrays(PyObject *module, PyObject *inputs)
{
    if (!PyTuple_Check(inputs)) {
        PyErr_SetString(PyExc_TypeError, "arrays: expected a tuple");
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(inputs);
    PyObject *result = PyList_New(count);
    if (result == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GET_ITEM(inputs, i);
        item = TensorBase_Check(item) ? tensor_get_array((TensorObject *)item, NULL)
                                      : Py_NewRef(item);
        if (item == NULL) {
            Py_DECREF(result);
            return NULL;
        }
        PyList_SET_ITEM(result, i, item);
    }
    return result;
}

/* 1 if operations are recorded and an item of the tuple requires a gradient, -1 on error. */
static int
needs_grad(PyObject *inputs)
{
    if (!grad_mode.grad_enabled) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
        PyObject *item = PyTuple_GET_ITEM(inputs, i);
        if (!TensorBase_Check(item)) {
            continue;
        }
        if (tensor_refresh((TensorObject *)item) < 0) {
            return -1;
        }
        if (((TensorObject *)item)->requires_grad) {
            return 1;
        }
    }
    return 0;
}

/* is_on_gpu(inputs): True if one of them is a tensor on a GPU. */
static PyObject *
module_is_on_gpu(PyObject *module, PyObject *inputs)
{
    if (!PyTuple_Check(inputs)) {
        PyErr_SetString(PyExc_TypeError, "is_on_gpu: expected a tuple");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
        PyObject *item = PyTuple_GET_ITEM(inputs, i);
        if (TensorBase_Check(item) && ((TensorObject *)item)->gpu != NULL &&
            !((TensorObject *)item)->gpu->is_on_host) {
            Py_RETURN_TRUE;
        }
    }
    Py_RETURN_FALSE;
}

/* has_mirrored(inputs): True if one of them is a conjugate view or a negated one. */
static PyObject *
module_has_mirrored(PyObject *module, PyObject *inputs)
{
    if (!PyTuple_Check(inputs)) {
        PyErr_SetString(PyExc_TypeError, "has_mirrored: expected a tuple");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
        PyObject *item = PyTuple_GET_ITEM(inputs, i);
        if (TensorBase_Check(item) && is_mirrored((TensorObject *)item)) {
            Py_RETURN_TRUE;
        }
    }
    Py_RETURN_FALSE;
}

/* needs_grad(inputs): True if operations are recorded and one of the inputs requires a gradient. */
static PyObject *
module_needs_grad(PyObject *module, PyObject *inputs)
{
    if (!PyTuple_Check(inputs)) {
        PyErr_SetString(PyExc_TypeError, "needs_grad: expected a tuple");
        return NULL;
    }
    int needed = needs_grad(inputs);
    return needed < 0 ? NULL : PyBool_FromLong(needed);
}

/* edges(inputs) -> (edges, indices, mask): where the gradient of each input goes (its grad_fn, or
 * itself if a leaf, or None), which output of that node it is, and bit i set where edge i exists
 * (i < 63). */
static PyObject *
module_edges(PyObject *module, PyObject *inputs)
{
    PyObject *sequence = PySequence_Fast(inputs, "edges: expected a sequence");
    if (sequence == NULL) {
        return NULL;
    }
    Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence);
    PyObject *edges = PyList_New(count);
    PyObject *indices = PyList_New(count);
    unsigned long long mask = 0;
    if (edges == NULL || indices == NULL) {
        goto fail;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(sequence, i);
        PyObject *edge = Py_None;
        unsigned long index = 0;
        if (TensorBase_Check(item)) {
            TensorObject *tensor = (TensorObject *)item;
            if (tensor_refresh(tensor) < 0) {
                goto fail;
            }
            if (tensor->requires_grad) {
                edge = tensor->grad_fn == NULL ? item : tensor->grad_fn;
                index = tensor->output_index;
                mask |= i < 63 ? 1ULL << i : 0;
            }
        }
        PyList_SET_ITEM(edges, i, Py_NewRef(edge));
        PyObject *number = PyLong_FromUnsignedLong(index);
        if (number == NULL) {
            goto fail;
        }
        PyList_SET_ITEM(indices, i, number);
    }
    Py_DECREF(sequence);
    return Py_BuildValue("(NNK)", edges, indices, mask);
fail:
    Py_DECREF(sequence);
    Py_XDECREF(edges);
    Py_XDECREF(indices);
    return NULL;
}

/* (shape, dtype, device) of a tensor; anything else itself. */
static PyObject *
meta_of(PyObject *item)
{
    if (!TensorBase_Check(item)) {
        return Py_NewRef(item);
    }
    TensorObject *tensor = (TensorObject *)item;
    PyObject *shape = PyArray_IntTupleFromIntp(rank_of(tensor), sizes_of(tensor));
    PyObject *dtype = tensor_get_dtype(tensor, NULL);
    PyObject *device = tensor_get_device(tensor, NULL);
    PyObject *meta = NULL;
    if (shape != NULL && dtype != NULL && device != NULL) {
        meta = PyTuple_Pack(3, shape, dtype, device);
    }
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    Py_XDECREF(device);
    return meta;
}

static PyObject *
module_meta_of(PyObject *module, PyObject *item)
{
    return meta_of(item);
}

/* metas(inputs) -> list of meta_of. */
static PyObject *
module_metas(PyObject *module, PyObject *inputs)
{
    if (!PyTuple_Check(inputs)) {
        PyErr_SetString(PyExc_TypeError, "metas: expected a tuple");
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(inputs);
    PyObject *result = PyList_New(count);
    for (Py_ssize_t i = 0; result != NULL && i < count; i++) {
        PyObject *meta = meta_of(PyTuple_GET_ITEM(inputs, i));
        if (meta == NULL) {
            Py_CLEAR(result);
            break;
        }
        PyList_SET_ITEM(result, i, meta);
    }
    return result;
}

/* wrap_arrays(values): tuple with arrays wrapped as new tensors; numbers and None stay. */
static PyObject *
module_wrap_arrays(PyObject *module, PyObject *values)
{
    PyObject *sequence = PySequence_Fast(values, "wrap_arrays: expected a sequence");
    if (sequence == NULL) {
        return NULL;
    }
    Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence);
    PyObject *result = PyTuple_New(count);
    for (Py_ssize_t i = 0; result != NULL && i < count; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(sequence, i);
        int plain = item == Py_None || PyLong_Check(item) || PyFloat_CheckExact(item) ||
                    PyComplex_CheckExact(item);
        PyObject *made = plain ? Py_NewRef(item) : wrap(item);
        if (made == NULL) {
            Py_CLEAR(result);
            break;
        }
        PyTuple_SET_ITEM(result, i, made);
    }
    Py_DECREF(sequence);
    return result;
}

static int
check_arguments(const char *name, Py_ssize_t expected, Py_ssize_t given)
{
    if (expected == given) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "%s: expected %zd arguments, got %zd", name, expected, given);
    return -1;
}

static void
set_history(TensorObject *self, PyObject *node, unsigned long index)
{
    set_optional(&self->grad_fn, node);
    self->output_index = (uint32_t)index;
    self->requires_grad = node != Py_None;
    self->view_version = self->storage->version;
}

/* wrap_output(array, node, index): a new tensor that `node` made. */
static PyObject *
module_wrap_output(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments("wrap_output", 3, count) < 0) {
        return NULL;
    }
    unsigned long index = PyLong_AsUnsignedLong(args[2]);
    if (index == (unsigned long)-1 && PyErr_Occurred()) {
        return NULL;
    }
    PyObject *tensor = wrap(args[0]);
    if (tensor != NULL) {
        set_history((TensorObject *)tensor, args[1], index);
    }
    return tensor;
}

/* A tensor that shares `source`'s storage; see wrap_view. */
static PyObject *
view_of(PyObject *array, PyObject *source, PyObject *replay)
{
    TensorObject *tensor = (TensorObject *)source;
    TensorObject *self = tensor_create(tensor_type, array, tensor->storage, "wrap_view");
    if (self != NULL && replay != Py_None) {
        self->base = Py_NewRef(tensor->base != NULL ? tensor->base : source);
        self->replay = replay == Py_False ? NULL : Py_NewRef(replay);
        self->is_part = tensor->is_part;
    }
    return (PyObject *)self;
}

/* wrap_view(array, source, replay): a new tensor that shares `source`'s storage. With `replay` a
 * tuple it is a view of source's base (or of source); with False it is one whose steps nobody
 * recorded (made under no_grad); with None it only shares memory (detached). */
static PyObject *
module_wrap_view(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments("wrap_view", 3, count) < 0 || as_tensor(args[1]) == NULL) {
        return NULL;
    }
    return view_of(args[0], args[1], args[2]);
}

/* new_of(class, array, storage): a new tensor of a subclass; storage None makes a new one. */
static PyObject *
module_new_of(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments("new_of", 3, count) < 0) {
        return NULL;
    }
    if (!PyType_Check(args[0]) ||
        !PyType_IsSubtype((PyTypeObject *)args[0], &TensorBase_Type)) {
        PyErr_SetString(argument_error, "new_of: expected a subclass of TensorBase");
        return NULL;
    }
    StorageObject *storage = NULL;
    if (args[2] != Py_None) {
        if (!Py_IS_TYPE(args[2], &Storage_Type)) {
            PyErr_SetString(argument_error, "new_of: expected a Storage or None");
            return NULL;
        }
        storage = (StorageObject *)args[2];
    }
    return (PyObject *)tensor_create((PyTypeObject *)args[0], args[1], storage, "new_of");
}

/* attach(tensor, node, index): `node` made this tensor, which nobody else has seen yet. */
static PyObject *
module_attach(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments("attach or rebase", 3, count) < 0) {
        return NULL;
    }
    TensorObject *self = as_tensor(args[0]);
    if (self == NULL) {
        return NULL;
    }
    unsigned long index = PyLong_AsUnsignedLong(args[2]);
    if (index == (unsigned long)-1 && PyErr_Occurred()) {
        return NULL;
    }
    set_history(self, args[1], index);
    Py_RETURN_NONE;
}

/* rebase(tensor, node, index): `node` (None: nobody) made what the tensor now holds. */
static PyObject *
module_rebase(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    metadata_epoch++;
    return module_attach(module, args, count);
}

/* note_parts(tensors): those of a tuple that are views were given by one call; see is_part. */
static PyObject *
module_note_parts(PyObject *module, PyObject *parts)
{
    if (!PyTuple_Check(parts)) {
        PyErr_SetString(argument_error, "note_parts: expected a tuple");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); i++) {
        PyObject *part = PyTuple_GET_ITEM(parts, i);
        if (TensorBase_Check(part) && ((TensorObject *)part)->base != NULL) {
            ((TensorObject *)part)->is_part = 1;
        }
    }
    Py_RETURN_NONE;
}

/* forget_base(tensor): the tensor is no longer tracked as a view. */
static PyObject *
module_forget_base(PyObject *module, PyObject *object)
{
    TensorObject *self = as_tensor(object);
    if (self == NULL) {
        return NULL;
    }
    Py_CLEAR(self->base);
    Py_CLEAR(self->replay);
    Py_RETURN_NONE;
}

/* adopt_view(tensor, array, replay): the tensor shows its memory as `array` does from now on; if
 * it is a view, `replay` (a tuple, or None: unknown) leads to it from its base. */
static PyObject *
module_adopt_view(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments("adopt_view", 3, count) < 0) {
        return NULL;
    }
    TensorObject *self = as_tensor(args[0]);
    if (self == NULL) {
        return NULL;
    }
    if (replace_array(self, args[1], "adopt_view") < 0) {
        return NULL;
    }
    set_optional(&self->replay, self->base == NULL ? NULL : args[2]);
    Py_RETURN_NONE;
}

static PyObject *
module_bump_version(PyObject *module, PyObject *object)
{
    TensorObject *self = as_tensor(object);
    if (self == NULL) {
        return NULL;
    }
    self->storage->version++;
    Py_RETURN_NONE;
}

/* count_writes(tensor, count): the tensor, whose version grows by so much. */
static PyObject *
module_count_writes(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments("count_writes", 2, count) < 0) {
        return NULL;
    }
    TensorObject *self = as_tensor(args[0]);
    const long writes = self == NULL ? -1 : PyLong_AsLong(args[1]);
    if (self == NULL || (writes == -1 && PyErr_Occurred())) {
        return NULL;
    }
    self->storage->version += writes;
    return Py_NewRef(args[0]);
}

/* write_held(tensor, result, count, otherwise): count writes of a tensor whose elements compiled code
 * has written, or otherwise(tensor, result, count) where `result` holds another array. */
static PyObject *
module_write_held(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments("write_held", 4, count) < 0) {
        return NULL;
    }
    TensorObject *self = as_tensor(args[0]), *result = self == NULL ? NULL : as_tensor(args[1]);
    if (result == NULL) {
        return NULL;
    }
    if (self->array != result->array) {
        return PyObject_Vectorcall(args[3], args, 3, NULL);
    }
    return module_count_writes(module, (PyObject *const[]){args[0], args[2]}, 2);
}

/* The array that owns the memory of `array`, borrowed. */
static PyObject *
owner_of(PyObject *array)
{
    PyObject *base;
    while ((base = PyArray_BASE((PyArrayObject *)array)) != NULL && PyArray_Check(base)) {
        array = base;
    }
    return base != NULL ? base : array;
}

/* The allocation that a GPU array lies in (`array.data.mem`), borrowed from the array; NULL for
 * other objects. */
static PyObject *
allocation_of(PyObject *array)
{
    PyObject *pointer = PyObject_GetAttrString(array, "data");
    PyObject *memory = pointer == NULL ? NULL : PyObject_GetAttrString(pointer, "mem");
    PyErr_Clear();
    Py_XDECREF(pointer);
    Py_XDECREF(memory);
    return memory;
}

/* True if the arrays come from one allocation. */
static int
shares_memory(PyObject *a, PyObject *b)
{
    if (a == b) {
        return 1;
    }
    if (PyArray_Check(a) || PyArray_Check(b)) {
        return PyArray_Check(a) && PyArray_Check(b) && owner_of(a) == owner_of(b);
    }
    PyObject *memory = allocation_of(a);
    return memory != NULL && memory == allocation_of(b);
}

static PyObject *
module_shares_memory(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments("shares_memory", 2, count) < 0) {
        return NULL;
    }
    return PyBool_FromLong(shares_memory(args[0], args[1]));
}

static PyObject *
module_get_epoch(PyObject *module, PyObject *unused)
{
    return PyLong_FromUnsignedLongLong(metadata_epoch);
}

static PyObject *
module_is_grad_enabled(PyObject *module, PyObject *unused)
{
    return PyBool_FromLong(grad_mode.grad_enabled);
}

static PyObject *
module_is_inference_mode_enabled(PyObject *module, PyObject *unused)
{
    return PyBool_FromLong(grad_mode.inference_enabled);
}

static PyObject *
module_set_grad_enabled(PyObject *module, PyObject *flag)
{
    int wanted = PyObject_IsTrue(flag);
    if (wanted < 0) {
        return NULL;
    }
    char before = grad_mode.grad_enabled;
    grad_mode.grad_enabled = (char)wanted;
    return PyBool_FromLong(before);
}

static PyObject *
module_set_inference_enabled(PyObject *module, PyObject *flag)
{
    int wanted = PyObject_IsTrue(flag);
    if (wanted < 0) {
        return NULL;
    }
    char before = grad_mode.inference_enabled;
    grad_mode.inference_enabled = (char)wanted;
    return PyBool_FromLong(before);
}

static PyObject *
module_are_writes_checked(PyObject *module, PyObject *unused)
{
    return PyBool_FromLong(grad_mode.writes_checked);
}

static PyObject *
module_set_writes_checked(PyObject *module, PyObject *flag)
{
    int wanted = PyObject_IsTrue(flag);
    if (wanted < 0) {
        return NULL;
    }
    char before = grad_mode.writes_checked;
    grad_mode.writes_checked = (char)wanted;
    return PyBool_FromLong(before);
}

static PyObject *
module_has_levels(PyObject *module, PyObject *unused)
{
    return PyBool_FromLong(grad_mode.has_levels);
}

static PyObject *
module_set_has_levels(PyObject *module, PyObject *flag)
{
    int wanted = PyObject_IsTrue(flag);
    if (wanted < 0) {
        return NULL;
    }
    grad_mode.has_levels = (char)wanted;
    Py_RETURN_NONE;
}

static PyObject *
module_autocast_word(PyObject *module, PyObject *unused)
{
    return PyLong_FromLong(grad_mode.autocast);
}

static PyObject *
module_set_autocast_word(PyObject *module, PyObject *word)
{
    long wanted = PyLong_AsLong(word);
    if (wanted == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int before = grad_mode.autocast;
    grad_mode.autocast = (int)wanted;
    return PyLong_FromLong(before);
}

/* register(tensor_class, size_class, dtype_table, cpu_device, device_of, refresh_view, mirrored) */
static PyObject *
module_register(PyObject *module, PyObject *args)
{
    PyTypeObject *tensor, *size, *mirrored;
    PyObject *dtypes, *cpu, *device, *refresh;
    if (!PyArg_ParseTuple(args, "O!O!O!OOOO!:register", &PyType_Type, &tensor, &PyType_Type, &size,
                          &PyDict_Type, &dtypes, &cpu, &device, &refresh, &PyType_Type,
                          &mirrored)) {
        return NULL;
    }
    if (!PyType_IsSubtype(tensor, &TensorBase_Type) ||
        !PyType_IsSubtype(size, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "register: expected a TensorBase and a tuple subclass");
        return NULL;
    }
    Py_XSETREF(tensor_type, (PyTypeObject *)Py_NewRef((PyObject *)tensor));
    Py_XSETREF(size_type, (PyTypeObject *)Py_NewRef((PyObject *)size));
    Py_XSETREF(dtype_table, Py_NewRef(dtypes));
    Py_XSETREF(cpu_device, Py_NewRef(cpu));
    Py_XSETREF(device_of, Py_NewRef(device));
    Py_XSETREF(refresh_view, Py_NewRef(refresh));
    Py_XSETREF(mirrored_type, (PyTypeObject *)Py_NewRef((PyObject *)mirrored));
    Py_RETURN_NONE;
}

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL

static PyMethodDef module_methods[] = {
    {"wrap", module_wrap, METH_O, "wrap(array) -> Tensor that shares the array."},
    {"arrays", module_arrays, METH_O, "arrays(inputs) -> list with tensors as arrays."},
    {"is_on_gpu", module_is_on_gpu, METH_O, "is_on_gpu(inputs): is a tensor of them on a GPU?"},
    {"has_mirrored", module_has_mirrored, METH_O,
     "has_mirrored(inputs): is a tensor of them a conjugate view, or a negated one?"},
    {"needs_grad", module_needs_grad, METH_O, "needs_grad(inputs): is this to be recorded?"},
    {"edges", module_edges, METH_O, "edges(inputs) -> (edges, indices, mask)."},
    {"meta_of", module_meta_of, METH_O, "meta_of(x) -> (shape, dtype, device), or x itself."},
    {"metas", module_metas, METH_O, "metas(inputs) -> list of meta_of."},
    {"wrap_arrays", module_wrap_arrays, METH_O, "wrap_arrays(values) -> tuple of tensors."},
    {"wrap_output", FAST(module_wrap_output), "wrap_output(array, node, index) -> Tensor."},
    {"wrap_view", FAST(module_wrap_view), "wrap_view(array, source, replay) -> Tensor."},
    {"new_of", FAST(module_new_of), "new_of(class, array, storage) -> tensor of that class."},
    {"attach", FAST(module_attach), "attach(tensor, node, index): history of a new tensor."},
    {"rebase", FAST(module_rebase), "rebase(tensor, node, index): new history after a write."},
    {"note_parts", module_note_parts, METH_O, "note_parts(tensors): views that one call gave."},
    {"forget_base", module_forget_base, METH_O, "forget_base(tensor): no longer a view."},
    {"adopt_view", FAST(module_adopt_view), "adopt_view(tensor, array, replay): in its place."},
    {"bump_version", module_bump_version, METH_O, "bump_version(tensor): count a write."},
    {"count_writes", FAST(module_count_writes), "count_writes(tensor, count) -> the tensor."},
    {"write_held", FAST(module_write_held),
     "write_held(tensor, result, count, otherwise): after a launch that wrote the tensor's array."},
    {"shares_memory", FAST(module_shares_memory), "shares_memory(a, b): one allocation?"},
    {"metadata_epoch", module_get_epoch, METH_NOARGS, "The current metadata epoch."},
    {"is_grad_enabled", module_is_grad_enabled, METH_NOARGS,
     "is_grad_enabled()\n--\n\nTrue if operations of this thread are recorded for backward."},
    {"is_inference_mode_enabled", module_is_inference_mode_enabled, METH_NOARGS,
     "is_inference_mode_enabled()\n--\n\nTrue within inference_mode in this thread."},
    {"_set_grad_enabled", module_set_grad_enabled, METH_O,
     "_set_grad_enabled(flag) -> the flag before (this thread)."},
    {"_set_inference_enabled", module_set_inference_enabled, METH_O,
     "_set_inference_enabled(flag) -> the flag before (this thread)."},
    {"are_writes_checked", module_are_writes_checked, METH_NOARGS,
     "True where eager.modes.write_limits has to be asked before a write (this thread)."},
    {"_set_writes_checked", module_set_writes_checked, METH_O,
     "_set_writes_checked(flag) -> the flag before (this thread)."},
    {"has_levels", module_has_levels, METH_NOARGS,
     "True where eager.modes.forward_levels has levels that act now (this thread)."},
    {"_set_has_levels", module_set_has_levels, METH_O, "_set_has_levels(flag) (this thread)."},
    {"_autocast_word", module_autocast_word, METH_NOARGS,
     "_autocast_word() -> the word of ops/calls/autocast_words.py that holds in this thread."},
    {"_set_autocast_word", module_set_autocast_word, METH_O,
     "_set_autocast_word(word) -> the word before (this thread)."},
    {"register", module_register, METH_VARARGS,
     "register(Tensor, Size, dtypes, cpu, device_of, refresh_view, MirroredArray)."},
    {NULL, NULL, 0, NULL},
};

static GradMode *
grad_mode_of_thread(void)
{
    return &grad_mode;
}

static TensorApi api = {
    .base_type = &TensorBase_Type,
    .storage_type = &Storage_Type,
    .wrap = wrap,
    .metadata_epoch = &metadata_epoch,
    .tensor_type = &tensor_type,
    .grad_mode = grad_mode_of_thread,
    .needs_grad = needs_grad,
    .view_of = view_of,
    .shares_memory = shares_memory,
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynajit.eager._tensor",
    .m_doc = "TensorBase, Storage and grad mode in C: see tensor.h.",
    .m_size = -1,
    .m_methods = module_methods,
};

static int
import_errors(void)
{
    PyObject *errors = PyImport_ImportModule("dynajit.core.errors");
    if (errors == NULL) {
        return -1;
    }
    autograd_error = PyObject_GetAttrString(errors, "AutogradError");
    argument_error = PyObject_GetAttrString(errors, "ArgumentError");
    no_bool_error = PyObject_GetAttrString(errors, "ArgumentRuntimeError");
    Py_DECREF(errors);
    return autograd_error == NULL || argument_error == NULL || no_bool_error == NULL ? -1 : 0;
}

PyMODINIT_FUNC
PyInit__tensor(void)
{
    import_array();
    if (import_errors() < 0 || PyType_Ready(&Storage_Type) < 0 ||
        PyType_Ready(&TensorBase_Type) < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&module_definition);
    if (module == NULL) {
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(&api, DYNAJIT_TENSOR_CAPSULE, NULL);
    if (capsule == NULL || PyModule_AddObject(module, "api", capsule) < 0) {
        Py_XDECREF(capsule);
        Py_DECREF(module);
        return NULL;
    }
    if (PyModule_AddObjectRef(module, "TensorBase", (PyObject *)&TensorBase_Type) < 0 ||
        PyModule_AddObjectRef(module, "Storage", (PyObject *)&Storage_Type) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

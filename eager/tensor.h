/* The C layout of a tensor: what the eager layer creates and what guards and launches read.
 *
 * `dynajit.eager._tensor` defines the type `TensorBase` with this layout and exports the capsule
 * `dynajit.eager._tensor.api` (a `TensorApi`). `dynajit.capture._capture` imports the capsule.
 * Invariants: `array` is never NULL in a live tensor; `gpu` describes an array of CuPy, or the memory
 * of a MirroredArray (dynajit.core.arrays.mirrored_arrays), and is NULL for one of NumPy; a view shares its
 * base's `storage`;
 * `grad_fn` is NULL for leaves; `metadata_epoch` is bumped whenever `array` or `requires_grad` of
 * an existing tensor is replaced, so a guard that saw the epoch may skip re-reading metadata.
 * A view whose base was written in place under the tape since (`replay` set and `view_version` not
 * the storage's version) learns its new `requires_grad` and `grad_fn` when Python next reads either.
 */
#ifndef DYNAJIT_TENSOR_H
#define DYNAJIT_TENSOR_H

#include <Python.h>
#include <stdint.h>

/* What guards and launches read of an array on a GPU without asking it: filled when a tensor gets the
 * array. The memory lives as long as the array, whose shape and strides nobody changes in place. */
typedef struct {
    char *data;           /* device address of the first element */
    PyObject *dtype;      /* owned: the NumPy dtype */
    int dtype_number;     /* its type number */
    int device;           /* which GPU; -1: the CPU */
    int rank;
    char is_contiguous;   /* row-major, without gaps */
    char is_mirrored;     /* the memory does not hold the values: they are its conjugates, negatives */
    char is_on_host;      /* the memory is an array of NumPy */
    Py_ssize_t item_size; /* bytes per element */
    Py_ssize_t *strides;  /* in bytes, one per dim; they follow the sizes */
    Py_ssize_t sizes[];   /* one per dim */
} GpuLayout;

/* Shared by a tensor and all its views. */
typedef struct {
    PyObject_HEAD
    uint64_t version; /* bumped by every in-place write */
    uint64_t number;  /* how many storages were made before this one */
    char is_inference; /* made in inference mode */
    PyObject *weakrefs;
} StorageObject;

typedef struct {
    PyObject_HEAD
    PyObject *array;         /* numpy.ndarray, cupy.ndarray or what stands in their place */
    StorageObject *storage;  /* version counter, shared with views */
    PyObject *grad;          /* Tensor or NULL */
    PyObject *grad_fn;       /* tape node or NULL */
    PyObject *hooks;         /* dict of gradient hooks or NULL */
    PyObject *base;          /* the tensor this one is a view of, or NULL */
    PyObject *weakrefs;
    uint32_t output_index;   /* which output of grad_fn this is */
    char requires_grad;      /* 0 or 1; 1 also for non-leaves that need a gradient */
    char retains_grad;       /* 0 or 1 */
    char is_part;            /* of a view: one of several that one call gave, or a view of it */
    PyObject *replay;        /* of a view: tuple of (row, attributes) that leads from base to it */
    uint64_t view_version;   /* of a view: storage version for which requires_grad, grad_fn hold */
    GpuLayout *gpu;          /* owned; NULL for an array of NumPy */
} TensorObject;

/* One per thread. */
typedef struct {
    char grad_enabled;      /* operations are recorded for backward */
    char inference_enabled; /* inference_mode: implies not grad_enabled */
    char writes_checked;    /* eager.modes.write_limits has to be asked before a write */
    char has_levels;        /* tensors may have tangents: eager.modes.forward_levels */
    int autocast;           /* which casts library functions make: a word of ops/calls/autocast_words.py */
} GradMode;

typedef struct {
    PyTypeObject *base_type;    /* TensorBase */
    PyTypeObject *storage_type; /* Storage */
    /* A new tensor of the Python class registered by the eager layer; steals nothing. */
    PyObject *(*wrap)(PyObject *array);
    uint64_t *metadata_epoch;
    PyTypeObject **tensor_type; /* the registered Python class `Tensor` */
    GradMode *(*grad_mode)(void); /* the flags of the calling thread */
    /* 1 if the tape records what is computed from this tuple of operands, -1 on error. */
    int (*needs_grad)(PyObject *inputs);
    /* A tensor around `array` that shares the storage of a tensor, as `wrap_view` in Python. */
    PyObject *(*view_of)(PyObject *array, PyObject *source, PyObject *replay);
    int (*shares_memory)(PyObject *array, PyObject *other); /* one allocation? */
} TensorApi;

#define DYNAJIT_TENSOR_CAPSULE "dynajit.eager._tensor.api"

#endif

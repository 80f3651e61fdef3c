/* Rows on eager tensors without Python between the call and the array function.
 *
 * Contract: `attempt` and `get_item` do what `eager.operations.execute.handle` and `ops.functions.arrangement.subscript.get_item`
 * do, for the common case only: tensors on the CPU and plain numbers, dtypes (and, where the row
 * depends on them, shapes and attributes) that `ops.evaluate` has seen and left a plan for, keys of
 * integers, slices, None and Ellipsis, or one index or mask tensor. For all else they return NotImplemented and have no effect:
 * the Python path then computes, or finds the words of the refusal. What the tape is to record is
 * handed to `eager.operations.execute`. In-place methods that no tape sees write their result back here.
 * Rows with a function in C of their own (`native`, see `ops/native/_native_forms.c`) ask that first; those
 * that take no tensor only where this thread records nothing. The array functions of composites
 * (`ops/rows/array_forms.py`) are called here, too. `slope` calls the C form of a
 * derivative formula. Where tensors may have tangents (`has_levels`), everything goes the Python way. Called by `ops.table.op_table.Op` (through `ops.table.dispatch`), `eager.tensor.tensor`,
 * `eager.operations.writes` and `eager.tape.node`.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>

#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include "tensor.h"

/* The fields of dynajit.ops.evaluate.Plan, in order. */
enum {
    PLAN_FUNCTION,
    PLAN_NAMESPACE,
    PLAN_CASTS,
    PLAN_RESULT,
    PLAN_VIEW,
    PLAN_DIRECT,
    PLAN_SIZE,
};

enum { MOST_OPERANDS = 3, MOST_ARGUMENTS = 64 };

/* What eager.operations.execute says of rows that have functions of whole arrays. */
enum {
    FORM_NATIVE,    /* function in C, or None: see ops/native/_native_forms.c */
    FORM_ARRAY,     /* array function of a composite, or None */
    FORM_RESULT,    /* int, a ResultKind */
    FORM_ROW_MAJOR, /* bool: the array function wants operand 0 row by row */
    FORM_SIZE,
};

/* What the result of such a function is, and what its tape hears: `_result_kind` of eager.operations.execute. */
typedef enum {
    UNRECORDED, /* new; where gradients are recorded, the row is its parts */
    RECORDED,   /* new, one node */
    VIEW,       /* shares memory with operand 0, one node */
    DETACHED,   /* shares memory with operand 0, no node */
} ResultKind;

/* Up to so many elements the direct function of a reduction's plan gives what its own gives. */
enum { SMALL = 128 };

/* What the Python side registers, once; owned. */
static PyObject *plans = NULL;         /* dict: the key of `make_key` -> Plan */
static PyObject *quiet = NULL;         /* Context where NumPy ignores floating-point exceptions */
static PyObject *kind_pointwise = NULL;
static PyObject *kind_reduction = NULL;
static PyObject *kind_composite = NULL;
static PyObject *record_result = NULL; /* callable (row, inputs, attributes, array) -> tensor */
static PyObject *record_view = NULL;   /* the same for a row whose result is a view */
static PyObject *settle = NULL;        /* callable (row, operands, attributes, array) -> array */
static PyObject *row_major_rows = NULL; /* set: rows whose results lie row by row in any case */
static PyObject *ordered_rows = NULL;   /* set: rows whose results lie as an operand without gaps */
static PyObject *row_select = NULL;
static PyObject *row_slice = NULL;
static PyObject *row_reshape = NULL;
static PyObject *forms = NULL;         /* dict: row -> tuple of FORM_SIZE entries, see below */
static PyObject *numpy = NULL;         /* the module */

/* Type numbers of dtypes that elements are only kept in, as bits: below 64, and from NPY_USERDEF on. */
static uint64_t stored_numbers[2];

/* Interned names. */
static PyObject *name_handler, *name_kind, *name_attributes, *name_dim, *name_index, *name_keepdim,
    *name_shape, *name_start, *name_stop, *name_step;

static TensorApi *tensor_api = NULL;
static int (*const *recording_depth)(void) = NULL; /* of dynajit.ops.native._row_call */
static int (*const *classes_not_asked)(void) = NULL; /* of dynajit.ops.native._library_call */
static PyObject *handler_of_overriding = NULL; /* of classes with `__torch_function__`; owned */

#define TensorBase_Check(object) PyObject_TypeCheck(object, tensor_api->base_type)

/* True unless a tensor's class runs its operations by itself: such classes have another
 * `__dynajit_handler__` than `Tensor`, and are not left unasked by this thread. */
static int
is_plain(PyObject *tensor)
{
    PyTypeObject *type = Py_TYPE(tensor);
    if (type == *tensor_api->tensor_type) {
        return 1;
    }
    PyObject *own = PyObject_GetAttr((PyObject *)type, name_handler);
    PyObject *usual = PyObject_GetAttr((PyObject *)*tensor_api->tensor_type, name_handler);
    int same = own != NULL && (own == usual || (own == handler_of_overriding &&
                                                (*classes_not_asked)() > 0));
    Py_XDECREF(own);
    Py_XDECREF(usual);
    PyErr_Clear();
    return same;
}

/* True where elements are not computed with: the Python path says which rows take them. */
static int
is_stored(PyObject *array)
{
    int number = PyArray_TYPE((PyArrayObject *)array), is_users = number >= NPY_USERDEF;
    int bit = is_users ? number - NPY_USERDEF : number;
    return bit < 64 && (stored_numbers[is_users] >> bit & 1);
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

/* NotImplemented, after an exception that the Python path will raise again; NULL for one that is
 * no refusal, such as KeyboardInterrupt. */
static PyObject *
declined(void)
{
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) {
            return NULL;
        }
        PyErr_Clear();
    }
    Py_RETURN_NOTIMPLEMENTED;
}

/* ---- finding a plan ------------------------------------------------------------------------- */

/* How an operand of a pointwise row takes part in the key: `signature_of` of ops.evaluate. */
static PyObject *
signature_of(PyObject *operand)
{
    if (!PyArray_CheckExact(operand)) {
        return Py_NewRef((PyObject *)Py_TYPE(operand));
    }
    PyObject *number = PyLong_FromLong(PyArray_TYPE((PyArrayObject *)operand));
    if (number == NULL || PyArray_NDIM((PyArrayObject *)operand) > 0) {
        return number;
    }
    PyObject *zero_dim = PyTuple_Pack(1, number);
    Py_DECREF(number);
    return zero_dim;
}

/* The same where the plan depends on the shape: `shaped_signature_of`, (dtype number, *shape). */
static PyObject *
shaped_signature_of(PyObject *operand)
{
    PyArrayObject *array = (PyArrayObject *)operand;
    int rank = PyArray_NDIM(array);
    PyObject *signature = PyTuple_New(rank + 1);
    for (int d = -1; signature != NULL && d < rank; d++) {
        PyObject *item = PyLong_FromSsize_t(d < 0 ? PyArray_TYPE(array) : PyArray_DIM(array, d));
        if (item == NULL) {
            Py_CLEAR(signature);
            break;
        }
        PyTuple_SET_ITEM(signature, d + 1, item);
    }
    return signature;
}

/* (row, signature of each operand, value of each attribute): as ops.evaluate makes it. */
static PyObject *
make_key(PyObject *row, PyObject *kind, PyObject *const *operands, Py_ssize_t count,
         PyObject *attributes)
{
    int by_dtype = kind == kind_reduction; /* the attributes have no say in the dtypes */
    PyObject *key = PyTuple_New(1 + count + (by_dtype ? 0 : PyDict_GET_SIZE(attributes)));
    if (key == NULL) {
        return NULL;
    }
    PyTuple_SET_ITEM(key, 0, Py_NewRef(row));
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *signature =
            by_dtype ? PyLong_FromLong(PyArray_TYPE((PyArrayObject *)operands[i]))
            : kind == kind_pointwise ? signature_of(operands[i])
                                     : shaped_signature_of(operands[i]);
        if (signature == NULL) {
            Py_DECREF(key);
            return NULL;
        }
        PyTuple_SET_ITEM(key, i + 1, signature);
    }
    Py_ssize_t at = 0, next = count + 1;
    PyObject *value;
    while (!by_dtype && PyDict_Next(attributes, &at, NULL, &value)) {
        PyTuple_SET_ITEM(key, next++, Py_NewRef(value));
    }
    return key;
}

/* True if all attributes of the row are given, in its order: `Op.bind` would change nothing. */
static int
is_bound(PyObject *row, PyObject *attributes)
{
    PyObject *declared = PyObject_GetAttr(row, name_attributes);
    if (declared == NULL || !PyDict_CheckExact(declared) ||
        PyDict_GET_SIZE(declared) != PyDict_GET_SIZE(attributes)) {
        Py_XDECREF(declared);
        return 0;
    }
    Py_ssize_t at = 0, other_at = 0;
    PyObject *name, *other;
    int same = 1;
    while (same && PyDict_Next(declared, &at, &name, NULL)) {
        same = PyDict_Next(attributes, &other_at, &other, NULL) && name == other; /* interned */
    }
    Py_DECREF(declared);
    return same;
}

/* The arrays and numbers of the operands, borrowed; how many there are, or -1 if one is of another
 * kind than the key can hold. */
static Py_ssize_t
read_operands(PyObject *inputs, PyObject *kind, PyObject **operands)
{
    Py_ssize_t count = PyTuple_GET_SIZE(inputs);
    int tensors = 0;
    if (count > MOST_OPERANDS) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GET_ITEM(inputs, i);
        if (TensorBase_Check(item)) {
            operands[i] = ((TensorObject *)item)->array;
            if (!PyArray_CheckExact(operands[i]) || !is_plain(item)) {
                return -1;
            }
            tensors++;
            continue;
        }
        if (kind != kind_pointwise || !(PyFloat_CheckExact(item) || PyLong_CheckExact(item))) {
            return -1;
        }
        operands[i] = item;
    }
    return tensors ? count : -1; /* without a tensor, somebody else may be recording */
}

/* The plan of a call, a new reference; NULL, perhaps with an exception, if there is none. */
static PyObject *
find_plan(PyObject *row, PyObject *kind, PyObject *const *operands, Py_ssize_t count,
          PyObject *attributes)
{
    if (plans == NULL || !is_bound(row, attributes)) {
        return NULL;
    }
    if (kind == kind_reduction && PyArray_SIZE((PyArrayObject *)operands[0]) == 0) {
        return NULL; /* what an empty reduction gives depends on the row */
    }
    PyObject *key = make_key(row, kind, operands, count, attributes);
    if (key == NULL) {
        return NULL;
    }
    PyObject *plan = PyDict_GetItemWithError(plans, key);
    Py_DECREF(key);
    if (plan == NULL || !PyTuple_Check(plan) || PyTuple_GET_SIZE(plan) != PLAN_SIZE) {
        return NULL;
    }
    return Py_NewRef(plan); /* the function may empty the dict */
}

/* ---- running a plan ------------------------------------------------------------------------- */

/* A Python integer as a NumPy number; NULL without an exception as below. */
static PyObject *
cast_integer(PyObject *operand, PyArray_Descr *descr)
{
    int overflow;
    long long whole = PyLong_AsLongLongAndOverflow(operand, &overflow);
    if (overflow) {
        return NULL;
    }
    npy_int64 wide = whole;
    npy_int32 half = (npy_int32)whole; /* wraps, as in PyTorch */
    npy_uint8 byte = (npy_uint8)whole;
    double value = (double)whole;
    float narrow = (float)value;
    int is_exact = whole >= -(1LL << 24) && whole <= 1LL << 24; /* or a float32 would round it */
    void *number = descr->type_num == NPY_INT64                ? (void *)&wide
                   : descr->type_num == NPY_INT32              ? (void *)&half
                   : descr->type_num == NPY_UINT8              ? (void *)&byte
                   : descr->type_num == NPY_FLOAT && is_exact  ? (void *)&narrow
                   : descr->type_num == NPY_DOUBLE && is_exact ? (void *)&value
                                                               : NULL;
    return number == NULL ? NULL : PyArray_Scalar(number, descr, NULL);
}

/* `operand` as the plan wants it: an array that has the dtype already, or a number as one of NumPy's.
 * NULL without an exception where the slow path is to cast. */
static PyObject *
cast_operand(PyObject *operand, PyObject *descr)
{
    if (PyArray_CheckExact(operand)) {
        int fits = (PyObject *)PyArray_DESCR((PyArrayObject *)operand) == descr;
        return fits ? Py_NewRef(operand) : NULL;
    }
    if (PyLong_CheckExact(operand)) {
        return cast_integer(operand, (PyArray_Descr *)descr);
    }
    double value = PyFloat_AS_DOUBLE(operand);
    float narrow = (float)value;
    switch (((PyArray_Descr *)descr)->type_num) {
    case NPY_FLOAT:
        return PyArray_Scalar(&narrow, (PyArray_Descr *)descr, NULL);
    case NPY_DOUBLE:
        return PyArray_Scalar(&value, (PyArray_Descr *)descr, NULL);
    default:
        return NULL;
    }
}

/* The reduction of a small array by the ufunc itself, without the function around it. */
static PyObject *
call_reduce(PyObject *reduce, PyObject *array, PyObject *attributes)
{
    PyObject *dim = PyDict_GetItemWithError(attributes, name_dim);
    PyObject *keepdim = dim == NULL ? NULL : PyDict_GetItemWithError(attributes, name_keepdim);
    if (keepdim == NULL) {
        return NULL;
    }
    PyObject *arguments[] = {array, dim, Py_None, Py_None, keepdim}; /* dtype and out: none */
    return PyObject_Vectorcall(reduce, arguments, 5, NULL);
}

static PyObject *
call_function(PyObject *plan, PyObject **arguments, Py_ssize_t count, PyObject *attributes)
{
    PyObject *direct = PyTuple_GET_ITEM(plan, PLAN_DIRECT);
    int has_attributes = PyDict_GET_SIZE(attributes) > 0;
    if (direct != Py_None && !has_attributes) {
        return PyObject_Vectorcall(direct, arguments + 1, count - 1, NULL);
    }
    if (direct != Py_None && PyArray_SIZE((PyArrayObject *)arguments[1]) <= SMALL) {
        return call_reduce(direct, arguments[1], attributes);
    }
    return PyObject_VectorcallDict(PyTuple_GET_ITEM(plan, PLAN_FUNCTION), arguments, count,
                                   has_attributes ? attributes : NULL);
}

/* A new context in which NumPy ignores floating-point exceptions, entered; or NULL. */
static PyObject *
enter_quiet(void)
{
    PyObject *context = PyContext_Copy(quiet); /* a context can be entered only once at a time */
    if (context != NULL && PyContext_Enter(context) < 0) {
        Py_CLEAR(context);
    }
    return context;
}

/* `result` as it is, after the end of `enter_quiet`. */
static PyObject *
leave_quiet(PyObject *context, PyObject *result)
{
    if (PyContext_Exit(context) < 0) {
        Py_CLEAR(result);
    }
    Py_DECREF(context);
    return result;
}

/* Call the plan's function on cast operands while floating-point exceptions are ignored. */
static PyObject *
call_plan(PyObject *plan, PyObject **arguments, Py_ssize_t count, PyObject *attributes)
{
    if (PyTuple_GET_ITEM(plan, PLAN_VIEW) == Py_True) { /* nothing is computed */
        return call_function(plan, arguments, count, attributes);
    }
    PyObject *context = enter_quiet();
    return context == NULL
               ? NULL
               : leave_quiet(context, call_function(plan, arguments, count, attributes));
}

/* The result of a plan as an array; NULL, perhaps with an exception, for the slow path. */
static PyObject *
run_plan(PyObject *plan, PyObject *const *operands, Py_ssize_t count, PyObject *attributes)
{
    PyObject *casts = PyTuple_GET_ITEM(plan, PLAN_CASTS);
    PyObject *arguments[MOST_OPERANDS + 1] = {PyTuple_GET_ITEM(plan, PLAN_NAMESPACE)};
    PyObject *result = NULL;
    Py_ssize_t ready = 0;
    while (ready < count) {
        PyObject *operand = cast_operand(operands[ready], PyTuple_GET_ITEM(casts, ready));
        if (operand == NULL) {
            break;
        }
        arguments[++ready] = operand;
    }
    if (ready == count) {
        result = call_plan(plan, arguments, count + 1, attributes);
    }
    int may_share = PyTuple_GET_ITEM(plan, PLAN_VIEW) == Py_True;
    for (Py_ssize_t i = 1; result != NULL && !may_share && i <= ready; i++) {
        if (result == arguments[i]) { /* the caller must not get an operand */
            Py_CLEAR(result);
        }
    }
    if (result != NULL && !PyArray_CheckExact(result)) { /* zero-dim results are scalars */
        Py_SETREF(result, PyArray_IsScalar(result, Generic) ? PyArray_FromScalar(result, NULL) : NULL);
    }
    if (result != NULL && (PyObject *)PyArray_DESCR((PyArrayObject *)result) !=
                              PyTuple_GET_ITEM(plan, PLAN_RESULT)) {
        Py_CLEAR(result);
    }
    for (Py_ssize_t i = 1; i <= ready; i++) {
        Py_DECREF(arguments[i]);
    }
    return result;
}

/* ---- results -------------------------------------------------------------------------------- */

static PyObject *
call_recorder(PyObject *recorder, PyObject *row, PyObject *inputs, PyObject *attributes,
              PyObject *array)
{
    PyObject *arguments[] = {row, inputs, attributes, array};
    return PyObject_Vectorcall(recorder, arguments, 4, NULL);
}

/* True if a view of the tensor keeps the steps that lead to it: see `wrap_view` of _tensor. */
static int
keeps_steps(TensorObject *source)
{
    return tensor_api->grad_mode()->grad_enabled &&
           (source->base == NULL || source->replay != NULL);
}

/* A view that the tape need not know; `steps` is a tuple of (row, attributes). */
static PyObject *
wrap_steps(PyObject *array, PyObject *source, PyObject *steps)
{
    PyObject *before = ((TensorObject *)source)->replay;
    if (before == NULL) {
        return tensor_api->view_of(array, source, steps);
    }
    PyObject *all = PySequence_Concat(before, steps);
    PyObject *view = all == NULL ? NULL : tensor_api->view_of(array, source, all);
    Py_XDECREF(all);
    return view;
}

/* The tensor that a row with these operands gives, around the array that it computed, and which the
 * tape has to know if it is `recorded`. */
static PyObject *
wrap_result(PyObject *row, PyObject *inputs, PyObject *attributes, PyObject *array, int recorded,
            int is_view)
{
    if (!is_view) {
        return recorded ? call_recorder(record_result, row, inputs, attributes, array)
                        : tensor_api->wrap(array);
    }
    PyObject *source = PyTuple_GET_ITEM(inputs, 0);
    if (recorded || !tensor_api->shares_memory(array, ((TensorObject *)source)->array)) {
        return call_recorder(record_view, row, inputs, attributes, array);
    }
    if (!keeps_steps((TensorObject *)source)) {
        return tensor_api->view_of(array, source, Py_False);
    }
    PyObject *steps = Py_BuildValue("((OO))", row, attributes);
    PyObject *view = steps == NULL ? NULL : wrap_steps(array, source, steps);
    Py_XDECREF(steps);
    return view;
}

/* ---- layouts -------------------------------------------------------------------------------- */

/* True if the result of an ordered row has the strides of the first operand, which repeats nothing:
 * then it lies as that operand, whatever the others. */
static int
lies_as_first(PyArrayObject *array, PyObject *const *operands, Py_ssize_t count)
{
    PyArrayObject *first = NULL;
    for (Py_ssize_t i = 0; i < count && first == NULL; i++) {
        first = PyArray_CheckExact(operands[i]) ? (PyArrayObject *)operands[i] : NULL;
    }
    if (first == NULL || !PyArray_SAMESHAPE(array, first)) {
        return 0;
    }
    npy_intp given = PyArray_ITEMSIZE(first), made = PyArray_ITEMSIZE(array);
    for (int d = 0; d < PyArray_NDIM(array); d++) {
        npy_intp stride = PyArray_STRIDE(first, d);
        if (PyArray_DIM(array, d) != 1 &&
            (stride == 0 || stride * made != PyArray_STRIDE(array, d) * given)) {
            return 0;
        }
    }
    return 1;
}

/* The array, which a row that is no view gave for these operands, where PyTorch would lay its result
 * out: `settled` of eager.operations.execute, asked only where an operand does not lie row by row. Takes the
 * reference to the array. */
static PyObject *
settled(PyObject *row, PyObject *const *operands, Py_ssize_t count, PyObject *attributes,
        PyObject *array)
{
    int others = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        others |= PyArray_CheckExact(operands[i]) &&
                  !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)operands[i]);
    }
    if (!others || PyArray_NDIM((PyArrayObject *)array) < 2) {
        return array;
    }
    if (PyArray_IS_C_CONTIGUOUS((PyArrayObject *)array)
            ? PySet_Contains(row_major_rows, row) == 1
            : PySet_Contains(ordered_rows, row) == 1 &&
                  lies_as_first((PyArrayObject *)array, operands, count)) {
        return array;
    }
    PyObject *given = PyTuple_New(count);
    for (Py_ssize_t i = 0; given != NULL && i < count; i++) {
        PyTuple_SET_ITEM(given, i, Py_NewRef(operands[i]));
    }
    PyObject *arguments[] = {row, given, attributes, array};
    PyObject *result = given == NULL ? NULL : PyObject_Vectorcall(settle, arguments, 4, NULL);
    Py_XDECREF(given);
    Py_DECREF(array);
    return result;
}

/* ---- rows in C ------------------------------------------------------------------------------ */

/* What a function in C gets for an operand, borrowed: the array of a tensor, anything else as it is.
 * NULL for tensors that run their operations elsewhere, and for elements that are only kept. */
static PyObject *
native_operand(PyObject *item, int *tensors)
{
    if (!TensorBase_Check(item)) {
        return item;
    }
    PyObject *array = ((TensorObject *)item)->array;
    *tensors += 1;
    return PyArray_CheckExact(array) && is_plain(item) && !is_stored(array) ? array : NULL;
}

static int
is_number_or_none(PyObject *item)
{
    return item == Py_None || PyFloat_CheckExact(item) || PyLong_CheckExact(item) ||
           PyBool_Check(item);
}

/* Operands, then the values of attributes, borrowed; how many, or -1 where others are to be asked. */
static Py_ssize_t
native_arguments(PyObject *row, PyObject *inputs, PyObject *attributes, PyObject **arguments)
{
    Py_ssize_t count = PyTuple_GET_SIZE(inputs);
    int tensors = 0;
    if (count + PyDict_GET_SIZE(attributes) > MOST_ARGUMENTS || !is_bound(row, attributes)) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GET_ITEM(inputs, i);
        arguments[i] = native_operand(item, &tensors);
        if (arguments[i] == NULL || (arguments[i] == item && !is_number_or_none(item))) {
            return -1;
        }
    }
    if (tensors == 0 && (*recording_depth)() > 0) {
        return -1;
    }
    Py_ssize_t at = 0;
    while (PyDict_Next(attributes, &at, NULL, &arguments[count])) {
        count++;
    }
    return count;
}

/* What the array function of a composite gives for `count` operands, which follow `arguments[0]`, as
 * `array_form` of ops.evaluate: an array, NotImplemented, or NULL with an error. */
static PyObject *
call_array_form(PyObject *form, PyObject **arguments, Py_ssize_t count, PyObject *attributes)
{
    for (Py_ssize_t i = 1; i <= count; i++) {
        if (arguments[i] != Py_None && !PyArray_CheckExact(arguments[i])) {
            Py_RETURN_NOTIMPLEMENTED;
        }
    }
    if (PyTuple_GET_ITEM(form, FORM_ROW_MAJOR) == Py_True &&
        !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)arguments[1])) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject *context = enter_quiet();
    if (context == NULL) {
        return NULL;
    }
    arguments[0] = numpy;
    PyObject *result =
        leave_quiet(context, PyObject_VectorcallDict(PyTuple_GET_ITEM(form, FORM_ARRAY), arguments,
                                                     count + 1, attributes));
    if (result != NULL && PyArray_IsScalar(result, Generic)) {
        Py_SETREF(result, PyArray_FromScalar(result, NULL));
    }
    if (result != NULL && !PyArray_CheckExact(result)) {
        Py_SETREF(result, Py_NewRef(Py_NotImplemented));
    }
    return result;
}

/* What a row gives by a function of whole arrays, or NotImplemented; `form` is its entry in `forms`. */
static PyObject *
run_form(PyObject *form, PyObject *row, PyObject *inputs, PyObject *attributes)
{
    PyObject *arguments[MOST_ARGUMENTS + 1]; /* the first is for the array module */
    Py_ssize_t count = native_arguments(row, inputs, attributes, arguments + 1);
    if (count < 0) {
        return declined();
    }
    int recorded = tensor_api->needs_grad(inputs);
    if (recorded < 0) {
        return NULL;
    }
    ResultKind kind = (ResultKind)PyLong_AsLong(PyTuple_GET_ITEM(form, FORM_RESULT));
    if (recorded && kind == UNRECORDED) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject *native = PyTuple_GET_ITEM(form, FORM_NATIVE);
    PyObject *array = native == Py_None
                          ? Py_NewRef(Py_NotImplemented)
                          : PyObject_Vectorcall(native, arguments + 1, count, NULL);
    if (array == Py_NotImplemented && PyTuple_GET_ITEM(form, FORM_ARRAY) != Py_None) {
        Py_DECREF(array);
        array = call_array_form(form, arguments, PyTuple_GET_SIZE(inputs), attributes);
    }
    if (array == NULL) {
        return declined();
    }
    if (array == Py_NotImplemented) {
        return array;
    }
    if (kind != VIEW && kind != DETACHED && PyArray_CheckExact(array)) {
        array = settled(row, arguments + 1, PyTuple_GET_SIZE(inputs), attributes, array);
        if (array == NULL) {
            return NULL;
        }
    }
    PyObject *result =
        kind == DETACHED ? tensor_api->view_of(array, PyTuple_GET_ITEM(inputs, 0), Py_None)
                         : wrap_result(row, inputs, attributes, array, recorded, kind == VIEW);
    Py_DECREF(array);
    return result;
}

/* slope(function, *values): a tensor of what a derivative formula in C gives for the formula's values,
 * or NotImplemented. */
static PyObject *
rows_slope(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    PyObject *arguments[MOST_ARGUMENTS];
    int tensors = 0;
    if (count < 1 || count - 1 > MOST_ARGUMENTS || tensor_api->grad_mode()->has_levels) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    for (Py_ssize_t i = 1; i < count; i++) {
        arguments[i - 1] = native_operand(args[i], &tensors);
        if (arguments[i - 1] == NULL) {
            Py_RETURN_NOTIMPLEMENTED;
        }
    }
    PyObject *array = PyObject_Vectorcall(args[0], arguments, count - 1, NULL);
    if (array == NULL) {
        return declined();
    }
    if (array == Py_NotImplemented) {
        return array;
    }
    PyObject *result = tensor_api->wrap(array);
    Py_DECREF(array);
    return result;
}

/* attempt(row, inputs, attributes): what the row gives, or NotImplemented. */
static PyObject *
rows_attempt(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments("attempt", 3, count) < 0) {
        return NULL;
    }
    PyObject *row = args[0], *inputs = args[1], *attributes = args[2];
    PyObject *operands[MOST_OPERANDS];
    if (!PyTuple_CheckExact(inputs) || !PyDict_CheckExact(attributes) ||
        tensor_api->grad_mode()->has_levels) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject *form = forms == NULL ? NULL : PyDict_GetItemWithError(forms, row);
    if (form != NULL) {
        PyObject *result = run_form(form, row, inputs, attributes);
        if (result != Py_NotImplemented) {
            return result;
        }
        Py_DECREF(result);
    }
    PyObject *kind = PyObject_GetAttr(row, name_kind);
    if (kind == NULL) {
        return NULL;
    }
    Py_DECREF(kind); /* the row keeps it */
    Py_ssize_t size = kind == kind_composite ? -1 : read_operands(inputs, kind, operands);
    if (size < 0) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject *plan = find_plan(row, kind, operands, size, attributes);
    if (plan == NULL) {
        return declined();
    }
    PyObject *array = run_plan(plan, operands, size, attributes);
    int is_view = PyTuple_GET_ITEM(plan, PLAN_VIEW) == Py_True;
    Py_DECREF(plan);
    if (array != NULL && !is_view) {
        array = settled(row, operands, size, attributes, array);
    }
    if (array == NULL) {
        return declined();
    }
    int recorded = tensor_api->needs_grad(inputs);
    PyObject *result =
        recorded < 0 ? NULL : wrap_result(row, inputs, attributes, array, recorded, is_view);
    Py_DECREF(array);
    return result;
}

/* ---- basic indexing ------------------------------------------------------------------------- */

/* What a key of integers, slices, None and Ellipsis asks of an array. */
typedef struct {
    int rank; /* of the array */
    npy_intp start[NPY_MAXDIMS], stop[NPY_MAXDIMS], step[NPY_MAXDIMS]; /* per dim of the array */
    char is_selected[NPY_MAXDIMS];                                     /* by an integer */
    int has_slice, selected, has_new_dims;
    int result_rank;
    npy_intp shape[NPY_MAXDIMS], strides[NPY_MAXDIMS]; /* of the result */
    npy_intp offset;                                   /* of its first element, in bytes */
} Region;

static int
add_dim(Region *region, npy_intp size, npy_intp stride)
{
    if (region->result_rank == NPY_MAXDIMS) {
        return -1;
    }
    region->shape[region->result_rank] = size;
    region->strides[region->result_rank++] = stride;
    return 0;
}

/* The integer that an entry of a key is: a zero-dim tensor or array of integers, but not of bytes, which
 * is a mask, or a number of NumPy. NULL without an error: it is something else. */
static PyObject *
number_of(PyObject *entry)
{
    if (PyArray_IsScalar(entry, Integer)) {
        return PyNumber_Index(entry);
    }
    if (TensorBase_Check(entry)) {
        if (!is_plain(entry)) {
            return NULL;
        }
        entry = ((TensorObject *)entry)->array;
    }
    if (!PyArray_CheckExact(entry)) {
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)entry;
    int is_number = PyArray_NDIM(array) == 0 && PyArray_ISINTEGER(array) &&
                    PyArray_TYPE(array) != NPY_UINT8;
    return is_number ? PyArray_GETITEM(array, PyArray_BYTES(array)) : NULL;
}

/* Dimension d of the array cut by a slice, or whole without one. -1: not for this path. */
static int
add_slice(Region *region, PyArrayObject *array, int d, PyObject *slice)
{
    npy_intp size = PyArray_DIM(array, d), stride = PyArray_STRIDE(array, d);
    Py_ssize_t start = 0, stop = size, step = 1;
    if (slice != NULL) {
        if (PySlice_Unpack(slice, &start, &stop, &step) < 0 || step < 1) {
            return -1;
        }
    }
    npy_intp length = PySlice_AdjustIndices(size, &start, &stop, step);
    region->start[d] = start;
    region->stop[d] = stop > start ? stop : start;
    region->step[d] = step;
    region->has_slice |= start != 0 || region->stop[d] != size || step != 1;
    region->offset += start * stride;
    return add_dim(region, length, stride * step);
}

/* A dimension of size 1 before dimension d of the array; its stride is as PyTorch has it. */
static int
add_new_dim(Region *region, PyArrayObject *array, int d)
{
    region->has_new_dims = 1;
    int is_last = d == region->rank;
    return add_dim(region, 1,
                   is_last ? PyArray_ITEMSIZE(array)
                           : PyArray_DIM(array, d) * PyArray_STRIDE(array, d));
}

static int
add_integer(Region *region, PyArrayObject *array, int d, PyObject *number)
{
    int overflow;
    long long at = PyLong_AsLongLongAndOverflow(number, &overflow);
    npy_intp size = PyArray_DIM(array, d);
    at += at < 0 ? size : 0;
    if (overflow || at < 0 || at >= size) {
        return -1;
    }
    region->start[d] = at;
    region->is_selected[d] = 1;
    region->selected++;
    region->offset += at * PyArray_STRIDE(array, d);
    return 0;
}

/* How many dims the entries of a key use up; -1 if one is of another kind. */
static Py_ssize_t
count_consumed(PyObject *const *entries, Py_ssize_t count)
{
    Py_ssize_t consumed = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *entry = entries[i];
        if (PyLong_CheckExact(entry) || PySlice_Check(entry)) {
            consumed++;
        }
        else if (entry != Py_None && entry != Py_Ellipsis) {
            PyObject *number = number_of(entry);
            if (number == NULL) {
                return -1;
            }
            Py_DECREF(number);
            consumed++;
        }
    }
    return consumed;
}

static int
read_region(Region *region, PyArrayObject *array, PyObject *const *entries, Py_ssize_t count)
{
    memset(region, 0, offsetof(Region, shape));
    region->offset = 0;
    region->rank = PyArray_NDIM(array);
    Py_ssize_t consumed = count_consumed(entries, count);
    if (consumed < 0 || consumed > region->rank) {
        return -1;
    }
    int d = 0, failed = 0, ellipses = 0;
    for (Py_ssize_t i = 0; i < count && !failed; i++) {
        PyObject *entry = entries[i];
        if (entry == Py_None) {
            failed = add_new_dim(region, array, d);
        }
        else if (entry == Py_Ellipsis) {
            if (ellipses++ > 0 && i + 1 < count) {
                return -1; /* what may follow is told elsewhere */
            }
            for (Py_ssize_t left = ellipses > 1 ? 0 : region->rank - consumed; left > 0 && !failed;
                 left--) {
                failed = add_slice(region, array, d++, NULL);
            }
        }
        else if (PyLong_CheckExact(entry)) {
            failed = add_integer(region, array, d++, entry);
        }
        else if (PySlice_Check(entry)) {
            failed = add_slice(region, array, d++, entry);
        }
        else {
            PyObject *number = number_of(entry);
            failed = number == NULL ? -1 : add_integer(region, array, d++, number);
            Py_XDECREF(number);
        }
    }
    while (d < region->rank && !failed) {
        failed = add_slice(region, array, d++, NULL);
    }
    return failed;
}

static PyObject *
region_array(const Region *region, PyArrayObject *array)
{
    PyArray_Descr *descr = PyArray_DESCR(array);
    Py_INCREF(descr); /* the new array takes it */
    PyObject *view = PyArray_NewFromDescr(
        &PyArray_Type, descr, region->result_rank, region->shape, region->strides,
        PyArray_BYTES(array) + region->offset,
        PyArray_FLAGS(array) & (NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED), NULL);
    if (view != NULL &&
        PyArray_SetBaseObject((PyArrayObject *)view, Py_NewRef((PyObject *)array)) < 0) {
        Py_CLEAR(view);
    }
    return view;
}

/* One attribute of the row `slice`: a number per dim, `whole` for those that are not cut. */
static PyObject *
slice_attribute(const Region *region, const npy_intp *numbers, const npy_intp *whole, int otherwise)
{
    PyObject *attribute = PyTuple_New(region->rank);
    for (int d = 0; attribute != NULL && d < region->rank; d++) {
        npy_intp uncut = whole == NULL ? otherwise : whole[d];
        PyObject *item = PyLong_FromSsize_t(region->is_selected[d] ? uncut : numbers[d]);
        if (item == NULL) {
            Py_CLEAR(attribute);
            break;
        }
        PyTuple_SET_ITEM(attribute, d, item);
    }
    return attribute;
}

static PyObject *
slice_step(const Region *region, PyArrayObject *array)
{
    PyObject *start = slice_attribute(region, region->start, NULL, 0);
    PyObject *stop = slice_attribute(region, region->stop, PyArray_DIMS(array), 0);
    PyObject *step = slice_attribute(region, region->step, NULL, 1);
    PyObject *attributes = NULL;
    if (start != NULL && stop != NULL && step != NULL) {
        attributes = Py_BuildValue("{OOOOOO}", name_start, start, name_stop, stop, name_step, step);
    }
    Py_XDECREF(start);
    Py_XDECREF(stop);
    Py_XDECREF(step);
    return attributes == NULL ? NULL : Py_BuildValue("(ON)", row_slice, attributes);
}

static PyObject *
reshape_step(const Region *region)
{
    PyObject *shape = PyArray_IntTupleFromIntp(region->result_rank, region->shape);
    return shape == NULL ? NULL : Py_BuildValue("(O{ON})", row_reshape, name_shape, shape);
}

/* The rows that lead to the region, as a list of (row, attributes); `ops.functions.arrangement.subscript` takes the same
 * ones: the slice, the selected dims from the last, then the new dims. */
static PyObject *
region_steps(const Region *region, PyArrayObject *array)
{
    PyObject *steps = PyList_New(0);
    PyObject *step = NULL;
    if (steps == NULL) {
        return NULL;
    }
    if (region->has_slice) {
        step = slice_step(region, array);
        if (step == NULL || PyList_Append(steps, step) < 0) {
            goto fail;
        }
        Py_CLEAR(step);
    }
    for (int d = region->rank - 1; d >= 0; d--) {
        if (!region->is_selected[d]) {
            continue;
        }
        step = Py_BuildValue("(O{OiOn})", row_select, name_dim, d, name_index,
                             (Py_ssize_t)region->start[d]);
        if (step == NULL || PyList_Append(steps, step) < 0) {
            goto fail;
        }
        Py_CLEAR(step);
    }
    if (region->has_new_dims || PyList_GET_SIZE(steps) == 0) {
        step = reshape_step(region);
        if (step == NULL || PyList_Append(steps, step) < 0) {
            goto fail;
        }
        Py_CLEAR(step);
    }
    return steps;
fail:
    Py_XDECREF(step);
    Py_DECREF(steps);
    return NULL;
}

static PyObject *
unrecorded_view(const Region *region, PyObject *source, PyObject *array)
{
    TensorObject *tensor = (TensorObject *)source;
    if (!keeps_steps(tensor)) {
        return tensor_api->view_of(array, source, Py_False);
    }
    PyObject *steps = region_steps(region, (PyArrayObject *)tensor->array);
    if (steps == NULL) {
        return NULL;
    }
    Py_SETREF(steps, PyList_AsTuple(steps));
    PyObject *view = steps == NULL ? NULL : wrap_steps(array, source, steps);
    Py_XDECREF(steps);
    return view;
}

/* The view as the tape records it, where one row makes it; NotImplemented where it takes more. */
static PyObject *
recorded_view(const Region *region, PyObject *source, PyObject *array)
{
    PyObject *result = NULL;
    PyObject *steps = region_steps(region, (PyArrayObject *)((TensorObject *)source)->array);
    if (steps != NULL && PyList_GET_SIZE(steps) != 1) {
        result = Py_NewRef(Py_NotImplemented);
    }
    else if (steps != NULL) {
        PyObject *step = PyList_GET_ITEM(steps, 0);
        PyObject *inputs = PyTuple_Pack(1, source);
        if (inputs != NULL) {
            result = call_recorder(record_view, PyTuple_GET_ITEM(step, 0), inputs,
                                   PyTuple_GET_ITEM(step, 1), array);
            Py_DECREF(inputs);
        }
    }
    Py_XDECREF(steps);
    return result;
}

/* Entries of dimension 0 at the positions in an index tensor, or all elements where a mask of their shape
 * holds; see `rows_get_item`. */
static PyObject *
taken(TensorObject *source, TensorObject *key)
{
    PyArrayObject *array = (PyArrayObject *)source->array;
    if (!PyArray_CheckExact(key->array) || PyArray_NDIM(array) == 0 ||
        !PyArray_IS_C_CONTIGUOUS(array)) { /* others decide where the result lies */
        Py_RETURN_NOTIMPLEMENTED;
    }
    PyArrayObject *positions = (PyArrayObject *)key->array;
    int is_mask = PyArray_TYPE(positions) == NPY_BOOL && PyArray_SAMESHAPE(positions, array);
    if ((PyArray_TYPE(positions) != NPY_INT64 && !is_mask) || PyArray_NDIM(positions) == 0) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (!is_mask && PyArray_NDIM(positions) > 1 && !PyArray_IS_C_CONTIGUOUS(positions)) {
        Py_RETURN_NOTIMPLEMENTED; /* the result is laid out like the positions */
    }
    for (int d = 2; !is_mask && d < PyArray_NDIM(array); d++) {
        if (PyArray_STRIDE(array, d - 1) < PyArray_STRIDE(array, d)) {
            Py_RETURN_NOTIMPLEMENTED; /* the result is laid out like the array */
        }
    }
    PyObject *found = is_mask ? PyObject_GetItem((PyObject *)array, key->array)
                              : PyArray_TakeFrom(array, key->array, 0, NULL, NPY_RAISE);
    if (found == NULL) {
        return declined();
    }
    PyObject *result = tensor_api->wrap(found);
    Py_DECREF(found);
    return result;
}

static PyObject *
basic_view(PyObject *source, PyObject *key, int is_recorded)
{
    PyArrayObject *array = (PyArrayObject *)((TensorObject *)source)->array;
    int is_tuple = PyTuple_CheckExact(key);
    PyObject *const *entries = is_tuple ? &PyTuple_GET_ITEM(key, 0) : &key;
    Region region;
    Py_INCREF(array); /* `__index__` of a bound may give the tensor another one */
    int failed = read_region(&region, array, entries, is_tuple ? PyTuple_GET_SIZE(key) : 1);
    PyObject *part = failed ? NULL : region_array(&region, array);
    Py_DECREF(array);
    if (failed) {
        return declined();
    }
    if (part == NULL) {
        return NULL;
    }
    PyObject *view = is_recorded ? recorded_view(&region, source, part)
                                 : unrecorded_view(&region, source, part);
    Py_DECREF(part);
    return view;
}

static int
has_no_dims(TensorObject *key)
{
    return PyArray_CheckExact(key->array) && PyArray_NDIM((PyArrayObject *)key->array) == 0;
}

/* get_item(tensor, key): tensor[key], or NotImplemented. */
static PyObject *
rows_get_item(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments("get_item", 2, count) < 0) {
        return NULL;
    }
    PyObject *source = args[0], *key = args[1];
    if (row_select == NULL || !TensorBase_Check(source) || !is_plain(source) ||
        !PyArray_CheckExact(((TensorObject *)source)->array) ||
        tensor_api->grad_mode()->has_levels) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject *inputs = PyTuple_Pack(1, source);
    int is_recorded = inputs == NULL ? -1 : tensor_api->needs_grad(inputs);
    Py_XDECREF(inputs);
    if (is_recorded < 0) {
        return NULL;
    }
    if (!TensorBase_Check(key) || has_no_dims((TensorObject *)key)) {
        return basic_view(source, key, is_recorded);
    }
    if (is_recorded || !is_plain(key)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    return taken((TensorObject *)source, (TensorObject *)key);
}

/* ---- writing back --------------------------------------------------------------------------- */

static int
requires_grad(PyObject *object)
{
    return TensorBase_Check(object) && ((TensorObject *)object)->requires_grad;
}

/* True if the tape has to know of a write of what these operands give to the tensor. */
static int
is_on_tape(TensorObject *tensor, PyObject *args, PyObject *kwargs)
{
    if (!tensor_api->grad_mode()->grad_enabled) {
        return 0;
    }
    if (tensor->requires_grad || (tensor->base != NULL && requires_grad(tensor->base))) {
        return 1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        if (requires_grad(PyTuple_GET_ITEM(args, i))) {
            return 1;
        }
    }
    Py_ssize_t at = 0;
    PyObject *value;
    while (PyDict_Next(kwargs, &at, NULL, &value)) {
        if (requires_grad(value)) {
            return 1;
        }
    }
    return 0;
}

/* Whether an operand, if it is another tensor, begins or ends within the memory of a row-major one. */
static int
reaches_into(PyArrayObject *written, PyObject *tensor, PyObject *operand)
{
    if (operand == tensor || !TensorBase_Check(operand)) {
        return 0;
    }
    PyObject *other = ((TensorObject *)operand)->array;
    if (!PyArray_CheckExact(other)) {
        return 0;
    }
    PyArrayObject *array = (PyArrayObject *)other;
    const char *start = PyArray_BYTES(written), *first = PyArray_BYTES(array);
    return first < start + PyArray_NBYTES(written) && start < first + PyArray_NBYTES(array);
}

static int
may_overlap(TensorObject *tensor, PyObject *args, PyObject *kwargs)
{
    PyArrayObject *array = (PyArrayObject *)tensor->array;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        if (reaches_into(array, (PyObject *)tensor, PyTuple_GET_ITEM(args, i))) {
            return 1;
        }
    }
    Py_ssize_t at = 0;
    PyObject *value;
    while (PyDict_Next(kwargs, &at, NULL, &value)) {
        if (reaches_into(array, (PyObject *)tensor, value)) {
            return 1;
        }
    }
    return 0;
}

/* is_free(tensor, args, kwargs): True if nothing forbids a write of what a method of the tensor gives
 * for these arguments, or has to know of it but the tensor's version: `check_writable` of
 * eager.operations.writes would find nothing, and its class runs no operation itself. */
static PyObject *
rows_is_free(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments("is_free", 3, count) < 0) {
        return NULL;
    }
    PyObject *tensor = args[0];
    if (!TensorBase_Check(tensor) || !PyTuple_Check(args[1]) || !PyDict_Check(args[2]) ||
        tensor_api->grad_mode()->writes_checked || tensor_api->grad_mode()->has_levels) {
        Py_RETURN_FALSE;
    }
    PyObject *array = ((TensorObject *)tensor)->array;
    if (((TensorObject *)tensor)->storage->is_inference &&
        !tensor_api->grad_mode()->inference_enabled) {
        Py_RETURN_FALSE;
    }
    if (!PyArray_CheckExact(array) || !is_plain(tensor) ||
        is_on_tape((TensorObject *)tensor, args[1], args[2])) {
        Py_RETURN_FALSE;
    }
    int wanted = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_WRITEABLE;
    return PyBool_FromLong(PyArray_CHKFLAGS((PyArrayObject *)array, wanted) &&
                           !may_overlap((TensorObject *)tensor, args[1], args[2]));
}

/* overwrite(tensor, result): let a free tensor hold a result of its own shape and dtype, and count
 * the write; False, without effect, for any other result. */
static PyObject *
rows_overwrite(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments("overwrite", 2, count) < 0) {
        return NULL;
    }
    if (!TensorBase_Check(args[0]) || !TensorBase_Check(args[1])) {
        Py_RETURN_FALSE;
    }
    TensorObject *tensor = (TensorObject *)args[0], *result = (TensorObject *)args[1];
    if (!PyArray_CheckExact(tensor->array) || !PyArray_CheckExact(result->array) ||
        (result->requires_grad && tensor_api->grad_mode()->grad_enabled)) {
        Py_RETURN_FALSE;
    }
    PyArrayObject *target = (PyArrayObject *)tensor->array, *source = (PyArrayObject *)result->array;
    if (!PyArray_SAMESHAPE(target, source) || PyArray_DESCR(target) != PyArray_DESCR(source)) {
        Py_RETURN_FALSE;
    }
    if (PyArray_CopyInto(target, source) < 0) {
        return NULL;
    }
    tensor->storage->version++;
    Py_RETURN_TRUE;
}

/* ---- the module ----------------------------------------------------------------------------- */

/* Set the bits of `stored_numbers` for a tuple of type numbers. */
static int
note_stored(PyObject *numbers)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); i++) {
        long number = PyLong_AsLong(PyTuple_GET_ITEM(numbers, i));
        int is_users = number >= NPY_USERDEF;
        long bit = is_users ? number - NPY_USERDEF : number;
        if (PyErr_Occurred() || bit < 0 || bit >= 64) {
            return PyErr_Occurred() ? -1 : check_arguments("register: a type number", 64, bit);
        }
        stored_numbers[is_users] |= (uint64_t)1 << bit;
    }
    return 0;
}

/* register(plans, quiet, kinds, recorders, rows, forms, layouts, stored): see the variables at the top. */
static PyObject *
rows_register(PyObject *module, PyObject *args)
{
    PyObject *given[14], *stored;
    if (!PyArg_ParseTuple(args, "O!O!(OOO)(OOO)(OOO)O!(O!O!)O!:register", &PyDict_Type, &given[0],
                          &PyContext_Type, &given[1], &given[2], &given[3], &given[4], &given[5],
                          &given[6], &given[7], &given[8], &given[9], &given[10], &PyDict_Type,
                          &given[11], &PySet_Type, &given[12], &PySet_Type, &given[13],
                          &PyTuple_Type, &stored) || note_stored(stored) < 0) {
        return NULL;
    }
    PyObject **kept[] = {&plans, &quiet, &kind_pointwise, &kind_reduction, &kind_composite,
                         &record_result, &record_view, &settle, &row_select, &row_slice,
                         &row_reshape, &forms, &row_major_rows, &ordered_rows};
    for (int i = 0; i < 14; i++) {
        Py_XSETREF(*kept[i], Py_NewRef(given[i]));
    }
    Py_RETURN_NONE;
}

/* register_overriding(handler): the `__dynajit_handler__` of classes that override functions. */
static PyObject *
rows_register_overriding(PyObject *module, PyObject *handler)
{
    Py_XSETREF(handler_of_overriding, Py_NewRef(handler));
    Py_RETURN_NONE;
}

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL

static PyMethodDef rows_methods[] = {
    {"attempt", FAST(rows_attempt),
     "attempt(row, inputs, attributes) -> what the row gives, or NotImplemented."},
    {"get_item", FAST(rows_get_item), "get_item(tensor, key) -> tensor[key], or NotImplemented."},
    {"is_free", FAST(rows_is_free),
     "is_free(tensor, args, kwargs): nothing but its version sees a write."},
    {"overwrite", FAST(rows_overwrite), "overwrite(tensor, result) -> was it a plain copy?"},
    {"slope", FAST(rows_slope), "slope(function, *values) -> a gradient, or NotImplemented."},
    {"register", rows_register, METH_VARARGS,
     "register(plans, quiet, kinds, recorders, rows, forms, layouts, stored)."},
    {"register_overriding", rows_register_overriding, METH_O,
     "register_overriding(handler): of classes with __torch_function__."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef rows_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynajit.eager._rows",
    .m_doc = "Rows on eager tensors, without Python between the call and the array function.",
    .m_size = -1,
    .m_methods = rows_methods,
};

static int
intern_names(void)
{
    struct {
        PyObject **name;
        const char *text;
    } names[] = {
        {&name_handler, "__dynajit_handler__"},
        {&name_kind, "kind"},   {&name_attributes, "attributes"}, {&name_dim, "dim"},
        {&name_index, "index"}, {&name_shape, "shape"},           {&name_start, "start"},
        {&name_stop, "stop"},   {&name_step, "step"},             {&name_keepdim, "keepdim"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        *names[i].name = PyUnicode_InternFromString(names[i].text);
        if (*names[i].name == NULL) {
            return -1;
        }
    }
    return 0;
}

PyMODINIT_FUNC
PyInit__rows(void)
{
    import_array();
    /* not PyCapsule_Import: the package is being imported and is no attribute of its parent yet */
    PyObject *owner = PyImport_ImportModule("dynajit.eager._tensor");
    PyObject *capsule = owner == NULL ? NULL : PyObject_GetAttrString(owner, "api");
    Py_XDECREF(owner); /* sys.modules keeps both */
    if (capsule == NULL) {
        return NULL;
    }
    tensor_api = PyCapsule_GetPointer(capsule, DYNAJIT_TENSOR_CAPSULE);
    Py_DECREF(capsule);
    owner = tensor_api == NULL ? NULL : PyImport_ImportModule("dynajit.ops.native._row_call");
    capsule = owner == NULL ? NULL : PyObject_GetAttrString(owner, "recording");
    Py_XDECREF(owner);
    if (capsule == NULL) {
        return NULL;
    }
    recording_depth = PyCapsule_GetPointer(capsule, "dynajit.ops.native._row_call.recording");
    Py_DECREF(capsule);
    owner = recording_depth == NULL ? NULL : PyImport_ImportModule("dynajit.ops.native._library_call");
    capsule = owner == NULL ? NULL : PyObject_GetAttrString(owner, "not_asked");
    Py_XDECREF(owner);
    if (capsule == NULL) {
        return NULL;
    }
    classes_not_asked = PyCapsule_GetPointer(capsule, "dynajit.ops.native._library_call.not_asked");
    Py_DECREF(capsule);
    numpy = PyImport_ImportModule("numpy");
    if (classes_not_asked == NULL || numpy == NULL || intern_names() < 0) {
        return NULL;
    }
    return PyModule_Create(&rows_definition);
}

/* The walk of the tree: every check, and the relations between what was found. */
#include "guards.h"
#include "caller_stack.h"

static int
dtype_matches(PyArray_Descr *actual, PyArray_Descr *expected)
{
    if (actual == expected) {
        return 1;
    }
    return actual->type_num == expected->type_num && PyArray_ISNBO(actual->byteorder)
           && PyDataType_ELSIZE(actual) == PyDataType_ELSIZE(expected);
}

/* What checks read of a tensor's array, of NumPy or on a GPU. */
typedef struct {
    PyArray_Descr *dtype;
    const char *data;
    const npy_intp *sizes, *strides;
    npy_intp item_size;
    int device; /* -1: the CPU */
    int rank;
    int is_contiguous;
} Layout;

static inline Layout
layout_of(const TensorObject *tensor)
{
    const GpuLayout *gpu = tensor->gpu;
    if (gpu != NULL) {
        return (Layout){(PyArray_Descr *)gpu->dtype, gpu->data, gpu->sizes, gpu->strides,
                        gpu->item_size, gpu->device, gpu->rank, gpu->is_contiguous};
    }
    PyArrayObject *array = (PyArrayObject *)tensor->array;
    return (Layout){PyArray_DESCR(array), PyArray_BYTES(array), PyArray_DIMS(array),
                    PyArray_STRIDES(array), PyArray_ITEMSIZE(array), -1, PyArray_NDIM(array),
                    PyArray_IS_C_CONTIGUOUS(array)};
}

/* True for a tensor whose array `layout_of` can read. */
static inline int
has_layout(PyObject *value)
{
    return is_tensor(value) && (((TensorObject *)value)->gpu != NULL ||
                                PyArray_Check(((TensorObject *)value)->array));
}

/* The stride of a dimension of size 1 and all strides of an empty array are free. */
static int
strides_match(const npy_intp *sizes, const npy_intp *actual, const DimSpec *dims, int rank)
{
    int differ = 0;
    for (int i = 0; i < rank; i++) {
        if (sizes[i] == 0) {
            return 1;
        }
        npy_intp stride = dims[i].stride;
        if (stride != actual[i] && sizes[i] != 1 && stride != ANY_NUMBER) {
            differ = 1;
        }
    }
    return !differ;
}

/* Whether the elements lie side by side, in an order of the dims. */
static int
lies_in_order(const Layout *layout, const DimSpec *dims)
{
    npy_intp step = layout->item_size;
    int differ = 0;
    for (int i = layout->rank - 1; i >= 0; i--) {
        npy_intp d = dims[i].stride;
        if (layout->sizes[d] == 0) {
            return 1;
        }
        if (layout->strides[d] != step && layout->sizes[d] != 1) {
            differ = 1;
        }
        step *= layout->sizes[d];
    }
    return !differ;
}

static int
check_tensor(Guards *self, const TensorSpec *spec, PyObject *object)
{
    if (Py_TYPE(object) != spec->type) {
        return 0;
    }
    TensorObject *tensor = (TensorObject *)object;
    if (tensor->gpu == NULL ? !PyArray_CheckExact(tensor->array) : tensor->gpu->is_mirrored) {
        return 0;
    }
    Layout layout = layout_of(tensor);
    if (layout.device != spec->device || layout.rank != spec->rank
        || !dtype_matches(layout.dtype, spec->dtype)) {
        return 0;
    }
    for (int i = 0; i < spec->rank; i++) {
        if (layout.sizes[i] < spec->dims[i].low || layout.sizes[i] > spec->dims[i].high) {
            return 0;
        }
    }
    if (spec->layout == LAYOUT_STRIDES
        && !strides_match(layout.sizes, layout.strides, spec->dims, spec->rank)) {
        return 0;
    }
    if (spec->layout == LAYOUT_CONTIGUOUS && !layout.is_contiguous) {
        return 0;
    }
    if (spec->layout == LAYOUT_ORDERED && !lies_in_order(&layout, spec->dims)) {
        return 0;
    }
    if (spec->requires_grad == 2) {
        return 1;
    }
    if (tensor->replay != NULL && tensor->view_version != tensor->storage->version) {
        self->stale = object; /* a write through another view may have changed the flag */
        return 0;
    }
    return tensor->requires_grad == spec->requires_grad;
}

/* Number of items of a plain container, or -1. */
Py_ssize_t
plain_length(PyObject *object)
{
    if (PyList_Check(object)) {
        return PyList_GET_SIZE(object);
    }
    if (PyTuple_Check(object)) {
        return PyTuple_GET_SIZE(object);
    }
    if (PyDict_Check(object)) {
        return PyDict_GET_SIZE(object);
    }
    if (PyAnySet_Check(object)) {
        return PySet_GET_SIZE(object);
    }
    if (PyUnicode_Check(object)) {
        return PyUnicode_GET_LENGTH(object);
    }
    if (Py_TYPE(object) == (PyTypeObject *)deque_type) {
        return PyObject_Size(object);
    }
    return PyBytes_Check(object) ? PyBytes_GET_SIZE(object) : -1;
}

/* The most items that a deque may have; -1: no limit. */
static int
has_max_length(PyObject *object, int number)
{
    if (Py_TYPE(object) != (PyTypeObject *)deque_type) {
        return 0;
    }
    PyObject *limit = PyObject_GetAttrString(object, "maxlen");
    int same = limit == Py_None ? number == -1 : limit != NULL && PyLong_AsLong(limit) == number;
    Py_XDECREF(limit);
    PyErr_Clear();
    return same;
}

static int
key_matches(const Check *check, Py_ssize_t i, PyObject *key)
{
    PyObject *expected = PyTuple_GET_ITEM(check->expected, i);
    return check->weak_items[i] ? weak_target(expected) == key : constant_equal(key, expected);
}

/* An OrderedDict keeps its order outside the dict, a set in its table: ask their own iterators. */
static int
iterated_keys_match(PyObject *iterator, const Check *check)
{
    if (iterator == NULL) {
        PyErr_Clear();
        return 0;
    }
    int matches = 1;
    for (Py_ssize_t i = 0; matches && i < PyTuple_GET_SIZE(check->expected); i++) {
        PyObject *key = PyIter_Next(iterator);
        matches = key != NULL && key_matches(check, i, key);
        Py_XDECREF(key);
    }
    Py_DECREF(iterator);
    PyErr_Clear();
    return matches;
}

static int
dict_keys_match(PyObject *dict, const Check *check)
{
    if (PySet_Check(dict)) {
        return PySet_GET_SIZE(dict) == PyTuple_GET_SIZE(check->expected)
               && iterated_keys_match(PySet_Type.tp_iter(dict), check);
    }
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(check->expected)) {
        return 0;
    }
    if (PyODict_Check(dict)) {
        return iterated_keys_match(PyODict_Type.tp_iter(dict), check);
    }
    Py_ssize_t position = 0, i = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &position, &key, &value)) {
        if (!key_matches(check, i++, key)) {
            return 0;
        }
    }
    return 1;
}

static int
check_predicate(const PredicateSpec *spec, PyObject *value)
{
    if (Py_TYPE(value) != spec->type) {
        return 0;
    }
    int holds = 1;
    for (int i = 0; holds && i < spec->count; i++) {
        /* not ...CompareBool: its identity shortcut says nan == nan */
        PyObject *result = PyObject_RichCompare(
            value, spec->comparisons[i].constant, spec->comparisons[i].operation);
        if (result == NULL) {
            PyErr_Clear();
            return 0;
        }
        holds = result == Py_True;
        Py_DECREF(result);
    }
    return holds != spec->negated;
}

static int
lacks_attribute(PyObject *object, Check *check, int look_at_class)
{
    if (PyType_Check(object)) {
        return _PyType_Lookup((PyTypeObject *)object, check->expected) == NULL
               && _PyType_Lookup(Py_TYPE(object), check->expected) == NULL;
    }
    Py_ssize_t slot = -1;
    PyObject *dict = storage_of(object).dict;
    if (dict != NULL && !lookup_is_quiet(dict, check->expected, check->hash)) {
        return 0;
    }
    if (instance_get(object, check->expected, check->hash, &slot) != NULL) {
        return 0;
    }
    return !look_at_class
           || (reads_ordinarily(Py_TYPE(object))
               && _PyType_Lookup(Py_TYPE(object), check->expected) == NULL);
}

/* What is expected; NULL where it has died. Borrowed. */
static PyObject *
expected_object(const Check *check)
{
    return check->is_weak ? weak_target(check->expected) : check->expected;
}

/* No class was registered with an abstract one since `expected`. */
static int
has_registrations(PyObject *expected)
{
    PyObject *now = PyObject_CallNoArgs(registrations);
    int same = now != NULL && constant_equal(now, expected);
    Py_XDECREF(now);
    PyErr_Clear();
    return same;
}

/* The thread's current GPU is number `number`. Asked of regions only that name a GPU without its
 * number, on machines with several. */
static int
is_current_device(int number)
{
    PyObject *now = PyObject_CallNoArgs(current_device);
    int same = now != NULL && PyLong_AsLong(now) == number;
    Py_XDECREF(now);
    PyErr_Clear();
    return same;
}

/* As many classes derive from it as expected, and the same ones: those that died are none. */
static int
has_subclasses(PyObject *cls, const Check *check)
{
    PyObject *now = PyType_Check(cls) ? PyObject_CallOneArg(subclasses, cls) : NULL;
    int same = now != NULL && PyList_GET_SIZE(now) == PyTuple_GET_SIZE(check->expected);
    for (Py_ssize_t i = 0; same && i < PyList_GET_SIZE(now); i++) {
        same = key_matches(check, i, PyList_GET_ITEM(now, i));
    }
    Py_XDECREF(now);
    PyErr_Clear();
    return same;
}

/* Nobody can ask for a key that has died. */
static int
lacks_key(PyObject *dict, const Check *check)
{
    PyObject *key = expected_object(check);
    return key != NULL && lookup_is_quiet(dict, key, check->hash)
           && dict_get(dict, key, check->hash) == NULL;
}

int
check_value(Guards *self, Check *check, PyObject *value)
{
    switch (check->kind) {
    case KIND_TYPE_IS:
        return (PyObject *)Py_TYPE(value) == expected_object(check);
    case KIND_IDENTITY:
        return value == expected_object(check);
    case KIND_EQUALS:
        return constant_equal(value, check->expected);
    case KIND_STORAGE_EQUALS:
        return storage_equal(value, check->expected);
    case KIND_TENSOR:
        return check_tensor(self, check->tensor, value);
    case KIND_LENGTH:
        return plain_length(value) == check->number;
    case KIND_AT_MOST: {
        Py_ssize_t length = plain_length(value);
        return length >= 0 && length <= check->number;
    }
    case KIND_POSITION:
        return iterator_position(value) == check->number;
    case KIND_TRUE_VALUE: {
        Py_ssize_t length = plain_length(value);
        return length >= 0 && (length > 0) == check->number;
    }
    case KIND_DICT_KEYS:
        return dict_keys_match(value, check);
    case KIND_HAS_NO_ATTRIBUTE:
        return lacks_attribute(value, check, 1);
    case KIND_INSTANCE_LACKS:
        return lacks_attribute(value, check, 0);
    case KIND_HAS_NO_KEY:
        return PyDict_Check(value) && lacks_key(value, check);
    case KIND_PREDICATE:
        return check_predicate(check->predicate, value);
    case KIND_FUNCTION:
        return PyFunction_Check(value) && ((PyFunctionObject *)value)->func_code == check->expected
               && is_called_plainly(value);
    case KIND_CLASS_UNCHANGED:
        return is_class_unchanged(self, check->classes, value);
    case KIND_GRAD_MODE:
        return tensor_api->grad_mode()->grad_enabled == check->number;
    case KIND_AUTOCAST:
        return tensor_api->grad_mode()->autocast == check->number;
    case KIND_INFERENCE:
        return tensor_api->grad_mode()->inference_enabled == check->number;
    case KIND_WRITES_CHECKED:
        return tensor_api->grad_mode()->writes_checked == check->number;
    case KIND_INFERENCE_TENSOR:
        return is_tensor(value) && ((TensorObject *)value)->storage->is_inference == check->number;
    case KIND_CLASSES_ASKED:
        return ((*classes_not_asked)() == 0) == check->number;
    case KIND_ENDS_QUIETLY:
        return Py_REFCNT(value) > self->held || ends_quietly(value, check->number)
               || is_lent_by_caller(value);
    case KIND_MAX_LENGTH:
        return has_max_length(value, check->number);
    case KIND_SUBCLASSES:
        return has_subclasses(value, check);
    case KIND_DEVICE:
        return is_current_device(check->number);
    case KIND_REGISTRATIONS:
        return has_registrations(check->expected);
    case KIND_HANDLING: {
        PyObject *handled = PyErr_GetHandledException();
        Py_XDECREF(handled);
        return (handled != NULL && handled != Py_None) == check->number;
    }
    default:
        return 1; /* EXISTS: it was read; relations are checked after the walk */
    }
}

static int
any_guard_below(const Node *node)
{
    if (node->check_count > 0) {
        return node->checks[0].guard;
    }
    for (int i = 0; i < node->child_count; i++) {
        int guard = any_guard_below(&node->children[i]);
        if (guard >= 0) {
            return guard;
        }
    }
    return -1;
}

int
walk(Guards *self, Node *node, PyObject *value)
{
    self->values[node->number] = value;
    for (int i = 0; i < node->check_count; i++) {
        if (!check_value(self, &node->checks[i], value)) {
            self->failed_guard = node->checks[i].guard;
            self->failed_value = value;
            return 0;
        }
    }
    for (int i = 0; i < node->child_count; i++) {
        Node *child = &node->children[i];
        PyObject *next = read_step(child, value);
        if (next == NULL) {
            self->failed_guard = any_guard_below(child);
            self->failed_value = NULL;
            return 0;
        }
        if (!walk(self, child, next)) {
            return 0;
        }
    }
    return 1;
}

/* Whether an in-place write to a tensor is allowed, and recorded as it was captured. */
static int
is_writable(TensorObject *tensor, int flags)
{
    if (tensor->gpu == NULL && !PyArray_ISWRITEABLE((PyArrayObject *)tensor->array)) {
        return 0;
    }
    if (tensor->storage->is_inference && !tensor_api->grad_mode()->inference_enabled) {
        return 0;
    }
    if (!(flags & MEMORY_RECORDED)) {
        return 1;
    }
    TensorObject *base = (TensorObject *)tensor->base;
    if (tensor->retains_grad || (base != NULL && base->retains_grad)) {
        return 0;
    }
    if (base == NULL) {
        return !tensor->requires_grad || tensor->grad_fn != NULL;
    }
    return !base->requires_grad || (base->grad_fn != NULL && tensor->replay != NULL);
}

static void
range_of(TensorObject *tensor, int flags, Range *range)
{
    Layout layout = layout_of(tensor);
    const char *start = layout.data, *stop = start + layout.item_size;
    for (int d = 0; d < layout.rank; d++) {
        npy_intp extent = (layout.sizes[d] - 1) * layout.strides[d];
        if (layout.sizes[d] == 0) {
            stop = start; /* no elements: overlaps nothing */
            break;
        }
        if (extent < 0) {
            start += extent;
        }
        else {
            stop += extent;
        }
    }
    *range = (Range){start, stop, flags};
}

/* A tensor that gets a history must not share its storage: views of it would get one, too. Nor one
 * beside others that backward needs: they count the writes to their storage. */
static int
shares_storage(Guards *self, const MemorySpec *memory, int position)
{
    TensorObject *written = (TensorObject *)self->values[memory->members[position].number];
    if (Py_REFCNT(written->storage) == 1) {
        return 0; /* nobody else has it */
    }
    for (int i = 0; i < memory->count; i++) {
        TensorObject *other = (TensorObject *)self->values[memory->members[i].number];
        if (i != position && other->storage == written->storage) {
            return 1;
        }
    }
    return 0;
}

/* Written tensors overlap with no other one. By address, none may start before the end of the
 * ones in front of it if it is written or one of those is. */
static int
check_memory(Guards *self, MemorySpec *memory)
{
    for (int i = 0; i < memory->count; i++) {
        PyObject *value = self->values[memory->members[i].number];
        int flags = memory->members[i].flags;
        if (!has_layout(value)) {
            return 0;
        }
        int is_leaf = ((TensorObject *)value)->grad_fn == NULL;
        if (((flags & MEMORY_LEAF) && !is_leaf) || ((flags & MEMORY_RESULT) && is_leaf)) {
            return 0;
        }
        if ((flags & MEMORY_WRITTEN) && !is_writable((TensorObject *)value, flags)) {
            return 0;
        }
    }
    for (int i = 0; i < memory->count; i++) {
        int position = memory->order[i], flags = memory->members[position].flags;
        if ((flags & MEMORY_ALONE) && shares_storage(self, memory, position)) {
            return 0;
        }
        Range range;
        range_of((TensorObject *)self->values[memory->members[position].number], flags, &range);
        int place = i;
        while (place > 0 && memory->ranges[place - 1].start > range.start) {
            memory->ranges[place] = memory->ranges[place - 1];
            memory->order[place] = memory->order[place - 1];
            place--;
        }
        memory->ranges[place] = range;
        memory->order[place] = position;
    }
    const char *end = NULL, *written_end = NULL;
    for (int i = 0; i < memory->count; i++) {
        Range range = memory->ranges[i];
        int is_written = range.flags & MEMORY_WRITTEN;
        if (range.start == range.stop) {
            continue;
        }
        if (range.start < written_end || (is_written && range.start < end)) {
            return 0;
        }
        end = range.stop > end ? range.stop : end;
        written_end = is_written && range.stop > written_end ? range.stop : written_end;
    }
    return 1;
}

int
read_term(const Guards *self, struct Term term, int64_t *number)
{
    PyObject *value = self->values[term.node];
    if (value == NULL) {
        return 0;
    }
    if (term.dim >= 0) {
        if (!has_layout(value)) {
            return 0;
        }
        Layout layout = layout_of((TensorObject *)value);
        if (term.dim >= layout.rank) {
            return 0;
        }
        *number = layout.sizes[term.dim];
        return 1;
    }
    int overflow;
    if (!PyLong_CheckExact(value)) {
        return 0;
    }
    *number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow;
}

/* One binary operation; 0 where the result is no int64_t. Rounds towards minus infinity. */
static int
combine(int operation, int64_t a, int64_t b, int64_t *result)
{
    int64_t rest;
    switch (operation) {
    case OPERATION_ADD:
        return !__builtin_add_overflow(a, b, result);
    case OPERATION_MULTIPLY:
        return !__builtin_mul_overflow(a, b, result);
    case OPERATION_FLOORDIV:
    case OPERATION_MOD:
        if (b == 0 || (b == -1 && a == INT64_MIN)) {
            return 0;
        }
        rest = a % b;
        rest += rest != 0 && (rest < 0) != (b < 0) ? b : 0;
        *result = operation == OPERATION_MOD ? rest : a / b - (a % b != 0 && (a < 0) != (b < 0));
        return 1;
    case OPERATION_MIN:
        *result = a < b ? a : b;
        return 1;
    default:
        *result = a > b ? a : b;
        return 1;
    }
}

static int
compare_numbers(int comparison, int64_t a, int64_t b)
{
    switch (comparison) {
    case Py_EQ:
        return a == b;
    case Py_NE:
        return a != b;
    case Py_LT:
        return a < b;
    case Py_LE:
        return a <= b;
    case Py_GT:
        return a > b;
    default:
        return a >= b;
    }
}

/* Fails where a term is missing and where a number overflows: a miss is slow, never wrong. */
static int
size_relation_holds(const Guards *self, const RelationSpec *spec)
{
    int64_t stack[RELATION_STACK];
    int depth = 0;
    for (int i = 0; i < spec->length; i++) {
        struct Instruction step = spec->program[i];
        if (step.operation == OPERATION_CONSTANT) {
            stack[depth++] = step.operand;
        }
        else if (step.operation == OPERATION_TERM) {
            if (!read_term(self, spec->terms[step.operand], &stack[depth++])) {
                return 0;
            }
        }
        else {
            depth--;
            if (!combine(step.operation, stack[depth - 1], stack[depth], &stack[depth - 1])) {
                return 0;
            }
        }
    }
    return compare_numbers(spec->comparison, stack[0], stack[1]);
}

static int
check_relation(const Guards *self, const Check *check, PyObject *value, PyObject *other)
{
    switch (check->kind) {
    case KIND_RELATION:
        return size_relation_holds(self, check->relation);
    case KIND_NOT_ALIASED:
        return value != other;
    case KIND_ALIASED:
        return value == other;
    default: /* KIND_NO_SHARED_STORAGE */
        return is_tensor(value) && is_tensor(other)
               && ((TensorObject *)value)->storage != ((TensorObject *)other)->storage;
    }
}

static int
is_relation(int kind)
{
    return kind == KIND_NOT_ALIASED || kind == KIND_ALIASED || kind == KIND_NO_SHARED_STORAGE
           || kind == KIND_RELATION;
}

int
walk_relations(Guards *self, Node *node)
{
    for (int i = 0; i < node->check_count; i++) {
        Check *check = &node->checks[i];
        PyObject *value = self->values[node->number];
        if (check->kind == KIND_SEPARATE_MEMORY) {
            if (!check_memory(self, check->memory)) {
                self->failed_guard = check->guard;
                self->failed_value = value;
                return 0;
            }
            continue;
        }
        if (!is_relation(check->kind)) {
            continue;
        }
        if (!check_relation(self, check, value, self->values[check->number])) {
            self->failed_guard = check->guard;
            self->failed_value = value;
            self->failed_relation = check->relation;
            return 0;
        }
    }
    for (int i = 0; i < node->child_count; i++) {
        if (!walk_relations(self, &node->children[i])) {
            return 0;
        }
    }
    return 1;
}

/* The whole tree. 1: all guards hold; 0: failed_guard and failed_value say which does not. */
static int
walk_tree(Guards *self, const Call *call)
{
    self->walks++;
    for (int i = 0; i < self->root_count; i++) {
        Node *root = &self->roots[i];
        if (root->step == STEP_SLOT && root->index >= call->slot_count) {
            self->failed_guard = any_guard_below(root);
            self->failed_value = NULL;
            return 0;
        }
        PyObject *value = read_root(root, call);
        if (value == NULL) {
            self->failed_guard = any_guard_below(root);
            self->failed_value = NULL;
            return 0;
        }
        if (!walk(self, root, value)) {
            return 0;
        }
    }
    if (self->has_relations) {
        for (int i = 0; i < self->root_count; i++) {
            if (!walk_relations(self, &self->roots[i])) {
                return 0;
            }
        }
    }
    return conditions_hold(self);
}

/* The whole tree, after refreshing views that a write through another view made stale. */
int
check_tree(Guards *self, const Call *call)
{
    for (;;) {
        self->stale = NULL;
        if (walk_tree(self, call)) {
            return 1;
        }
        if (self->stale == NULL) {
            return 0;
        }
        PyObject *view = Py_NewRef(self->stale);
        int was_busy = self->is_busy;
        self->is_busy = 0; /* nothing of the walk is kept */
        PyObject *flag = PyObject_GetAttr(view, name_requires_grad); /* eager code, not the user's */
        self->is_busy = was_busy;
        Py_DECREF(view);
        if (flag == NULL) {
            PyErr_Clear();
            return 0;
        }
        Py_DECREF(flag);
    }
}

/* From tuples to the tree of checks, and the Python type `Guards`. */
#include "guards.h"

const char *const step_names[STEP_COUNT] = {
    "SLOT", "FUNCTION", "CONSTANT", "STATE", "GLOBAL", "BUILTIN", "CLOSURE", "DEFAULT",
    "KEYWORD_DEFAULT", "ATTRIBUTE", "CLASS_ATTRIBUTE", "ITEM", "KEY", "TYPE", "METHOD_FUNCTION",
    "METHOD_SELF", "CELL", "PART", "DICT", "CLOSURE_CELL", "ITERATED",
    "NTH_KEY", "MEMBER", "DEQUE_ITEM", "CONTENTS", "TENSOR_OVER",
};

#define GUARD_KIND_NAME(name) #name,
const char *const kind_names[KIND_COUNT] = {GUARD_KINDS(GUARD_KIND_NAME)};

/* A size (exactly), None (any) or (low, high or None); a stride or None. */
static int
build_dim_spec(DimSpec *dim, PyObject *size, PyObject *stride)
{
    dim->low = 0;
    dim->high = NPY_MAX_INTP;
    dim->stride = stride == Py_None ? ANY_NUMBER : PyLong_AsSsize_t(stride);
    if (PyTuple_Check(size)) {
        PyObject *high;
        if (!PyArg_ParseTuple(size, "nO", &dim->low, &high)) {
            return -1;
        }
        if (high != Py_None) {
            dim->high = PyLong_AsSsize_t(high);
        }
    }
    else if (size != Py_None) {
        dim->low = dim->high = PyLong_AsSsize_t(size);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* The order of dims if that is the only item, else NULL. */
static PyObject *
order_in(PyObject *strides)
{
    if (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != 1
        || !PyTuple_Check(PyTuple_GET_ITEM(strides, 0))) {
        return NULL;
    }
    return PyTuple_GET_ITEM(strides, 0);
}

/* (class, NumPy dtype, number of the GPU or -1, sizes, byte strides or None or True: row-major, or
 * an order, requires_grad or None) */
static TensorSpec *
build_tensor_spec(PyObject *expected)
{
    PyObject *type, *dtype, *sizes, *strides, *requires_grad;
    int device;
    if (!PyArg_ParseTuple(expected, "O!O!iO!OO", &PyType_Type, &type, &PyArrayDescr_Type, &dtype,
                          &device, &PyTuple_Type, &sizes, &strides, &requires_grad)) {
        return NULL;
    }
    if (!PyType_IsSubtype((PyTypeObject *)type, tensor_api->base_type)) {
        PyErr_Format(PyExc_TypeError, "TENSOR guard: %s is no tensor class",
                     ((PyTypeObject *)type)->tp_name);
        return NULL;
    }
    Py_ssize_t rank = PyTuple_GET_SIZE(sizes);
    PyObject *order = order_in(strides);
    strides = order != NULL ? order : strides;
    int has_strides = strides != Py_None && strides != Py_True;
    if (has_strides && (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != rank)) {
        PyErr_SetString(PyExc_ValueError, "TENSOR guard: sizes and strides differ in length");
        return NULL;
    }
    TensorSpec *spec = PyMem_Calloc(1, sizeof(TensorSpec) + rank * sizeof(DimSpec));
    if (spec == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    spec->type = (PyTypeObject *)Py_NewRef(type);
    spec->dtype = (PyArray_Descr *)Py_NewRef(dtype);
    spec->device = device;
    spec->requires_grad = requires_grad == Py_None ? 2 : requires_grad == Py_True;
    spec->layout = order != NULL ? LAYOUT_ORDERED
                   : has_strides ? LAYOUT_STRIDES
                   : strides == Py_True ? LAYOUT_CONTIGUOUS : LAYOUT_ANY;
    spec->rank = (int)rank;
    for (Py_ssize_t i = 0; i < rank; i++) {
        PyObject *stride = has_strides ? PyTuple_GET_ITEM(strides, i) : Py_None;
        if (build_dim_spec(&spec->dims[i], PyTuple_GET_ITEM(sizes, i), stride) < 0) {
            Py_DECREF(type);
            Py_DECREF(dtype);
            PyMem_Free(spec);
            return NULL;
        }
        if (order != NULL && (spec->dims[i].stride < 0 || spec->dims[i].stride >= rank)) {
            PyErr_SetString(PyExc_ValueError, "TENSOR guard: an order names a dim that is none");
            Py_DECREF(type);
            Py_DECREF(dtype);
            PyMem_Free(spec);
            return NULL;
        }
    }
    return spec;
}

static const int comparison_operations[] = {Py_EQ, Py_NE, Py_LT, Py_LE, Py_GT, Py_GE};

/* (class, ((operation, constant), ...), negated) */
static PredicateSpec *
build_predicate_spec(PyObject *expected)
{
    PyObject *type, *comparisons;
    int negated;
    if (!PyArg_ParseTuple(expected, "O!O!p", &PyType_Type, &type, &PyTuple_Type, &comparisons,
                          &negated)) {
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(comparisons);
    PredicateSpec *spec =
        PyMem_Calloc(1, sizeof(PredicateSpec) + count * sizeof(spec->comparisons[0]));
    if (spec == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    spec->type = (PyTypeObject *)type;
    spec->negated = negated;
    int is_text = type == (PyObject *)&PyUnicode_Type;
    int valid = is_text || type == (PyObject *)&PyLong_Type || type == (PyObject *)&PyFloat_Type
                || type == (PyObject *)&PyBool_Type;
    for (Py_ssize_t i = 0; valid && i < count; i++) {
        int operation;
        PyObject *constant;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(comparisons, i), "iO", &operation, &constant)) {
            valid = 0;
            break;
        }
        valid = operation >= 0 && operation < 6
                && (is_text ? PyUnicode_CheckExact(constant)
                            : PyLong_CheckExact(constant) || PyFloat_CheckExact(constant)
                                  || PyBool_Check(constant));
        if (valid) {
            spec->comparisons[i].operation = comparison_operations[operation];
            spec->comparisons[i].constant = Py_NewRef(constant);
            spec->count++;
        }
    }
    if (!valid) {
        for (int i = 0; i < spec->count; i++) {
            Py_DECREF(spec->comparisons[i].constant);
        }
        PyMem_Free(spec);
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError,
                            "PREDICATE guard: expected int, float, bool or str and such constants");
        }
        return NULL;
    }
    return spec;
}

/* True if the program stays within the stack and leaves two numbers. */
static int
is_program_valid(const RelationSpec *spec)
{
    int depth = 0;
    for (int i = 0; i < spec->length; i++) {
        struct Instruction step = spec->program[i];
        if (step.operation < 0 || step.operation >= OPERATION_COUNT) {
            return 0;
        }
        if (step.operation == OPERATION_TERM
            && (step.operand < 0 || step.operand >= spec->term_count)) {
            return 0;
        }
        depth += step.operation <= OPERATION_TERM ? 1 : -1;
        if (depth < 1 || depth > RELATION_STACK) {
            return 0;
        }
    }
    return depth == 2;
}

static void
free_relation_spec(RelationSpec *spec)
{
    if (spec != NULL) {
        PyMem_Free(spec->terms);
        PyMem_Free(spec);
    }
}

struct Term *
build_terms(Guards *self, PyObject *terms, int *count)
{
    Py_ssize_t wanted = PyTuple_GET_SIZE(terms);
    struct Term *places = PyMem_Calloc(wanted ? wanted : 1, sizeof(struct Term));
    if (places == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < wanted; i++) {
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(terms, i), "ii", &places[i].node, &places[i].dim)
            || places[i].node < 0 || places[i].node >= self->node_count) {
            PyMem_Free(places);
            return NULL;
        }
    }
    *count = (int)wanted;
    return places;
}

/* (((node, dim), ...), comparison, ((operation, operand), ...)) */
static RelationSpec *
build_relation_spec(Guards *self, PyObject *expected)
{
    int comparison;
    PyObject *terms, *program;
    if (!PyArg_ParseTuple(expected, "O!iO!", &PyTuple_Type, &terms, &comparison, &PyTuple_Type,
                          &program)) {
        return NULL;
    }
    Py_ssize_t length = PyTuple_GET_SIZE(program);
    RelationSpec *spec =
        PyMem_Calloc(1, sizeof(RelationSpec) + length * sizeof(struct Instruction));
    if (spec == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    spec->terms = build_terms(self, terms, &spec->term_count);
    int valid = spec->terms != NULL && comparison >= 0 && comparison < 6;
    spec->comparison = valid ? comparison_operations[comparison] : Py_EQ;
    for (Py_ssize_t i = 0; valid && i < length; i++) {
        long long operand;
        valid = PyArg_ParseTuple(PyTuple_GET_ITEM(program, i), "iL", &spec->program[i].operation,
                                 &operand);
        spec->program[i].operand = operand;
        spec->length++;
    }
    if (!valid || !is_program_valid(spec)) {
        free_relation_spec(spec);
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "RELATION guard: not a program over its terms");
        }
        return NULL;
    }
    return spec;
}

/* New reference to the object or to a weak reference to it; *is_weak says which. */
static PyObject *
hold(PyObject *object, int is_constant, int *is_weak)
{
    *is_weak = is_held_weakly(object);
    return *is_weak ? refer_weakly(object, is_constant) : Py_NewRef(object);
}

static int
hold_keys(Check *check, PyObject *keys)
{
    if (!PyTuple_CheckExact(keys)) {
        PyErr_SetString(PyExc_TypeError, "guard: expected a tuple of keys or classes");
        return -1;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(keys);
    check->weak_items = PyMem_Calloc(count ? count : 1, 1);
    check->expected = PyTuple_New(count);
    if (check->weak_items == NULL || check->expected == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        int is_weak;
        PyObject *held = hold(PyTuple_GET_ITEM(keys, i), 0, &is_weak);
        if (held == NULL) {
            return -1;
        }
        PyTuple_SET_ITEM(check->expected, i, held);
        check->weak_items[i] = (char)is_weak;
    }
    return 0;
}

static void
free_memory_spec(MemorySpec *memory)
{
    PyMem_Free(memory->ranges);
    PyMem_Free(memory->order);
    PyMem_Free(memory);
}

/* From a tuple of (node number, flags). */
static MemorySpec *
build_memory_spec(PyObject *expected)
{
    if (!PyTuple_CheckExact(expected)) {
        PyErr_SetString(PyExc_TypeError, "SEPARATE_MEMORY guard: expected a tuple of tensors");
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(expected);
    MemorySpec *memory =
        PyMem_Calloc(1, sizeof(MemorySpec) + (size_t)count * sizeof(memory->members[0]));
    if (memory == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memory->count = (int)count;
    memory->ranges = PyMem_Calloc(count ? count : 1, sizeof(Range));
    memory->order = PyMem_Calloc(count ? count : 1, sizeof(int));
    if (memory->ranges == NULL || memory->order == NULL) {
        PyErr_NoMemory();
        goto failed;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        memory->order[i] = (int)i;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(expected, i), "ii", &memory->members[i].number,
                              &memory->members[i].flags)) {
            goto failed;
        }
    }
    return memory;
failed:
    free_memory_spec(memory);
    return NULL;
}

static int
build_check(Guards *self, Check *check, PyObject *spec)
{
    PyObject *expected;
    if (!PyArg_ParseTuple(spec, "iOi", &check->kind, &expected, &check->guard)) {
        return -1;
    }
    switch (check->kind) {
    case KIND_IDENTITY:
    case KIND_TYPE_IS:
        check->expected = hold(expected, 0, &check->is_weak);
        return check->expected == NULL ? -1 : 0;
    case KIND_DICT_KEYS:
    case KIND_SUBCLASSES:
        return hold_keys(check, expected);
    case KIND_TENSOR:
        check->tensor = build_tensor_spec(expected);
        return check->tensor == NULL ? -1 : 0;
    case KIND_PREDICATE:
        check->predicate = build_predicate_spec(expected);
        return check->predicate == NULL ? -1 : 0;
    case KIND_CLASS_UNCHANGED:
        check->classes = build_class_spec(expected);
        return check->classes == NULL ? -1 : 0;
    case KIND_SEPARATE_MEMORY:
        self->has_relations = 1;
        check->memory = build_memory_spec(expected);
        return check->memory == NULL ? -1 : 0;
    case KIND_RELATION:
        self->has_relations = 1;
        check->relation = build_relation_spec(self, expected);
        return check->relation == NULL ? -1 : 0;
    case KIND_CONDITION:
        self->has_relations = 1;
        check->condition = build_condition_spec(self, expected, check->guard);
        return check->condition == NULL ? -1 : 0;
    case KIND_NOT_ALIASED:
    case KIND_ALIASED:
    case KIND_NO_SHARED_STORAGE:
        self->has_relations = 1;
        /* fall through */
    case KIND_LENGTH:
    case KIND_AT_MOST:
    case KIND_POSITION:
    case KIND_TRUE_VALUE:
    case KIND_GRAD_MODE:
    case KIND_AUTOCAST:
    case KIND_INFERENCE:
    case KIND_DEVICE:
    case KIND_WRITES_CHECKED:
    case KIND_HANDLING:
    case KIND_ENDS_QUIETLY:
    case KIND_MAX_LENGTH:
    case KIND_CLASSES_ASKED:
    case KIND_INFERENCE_TENSOR:
        check->number = PyLong_AsInt(expected);
        return check->number == -1 && PyErr_Occurred() ? -1 : 0;
    case KIND_HAS_NO_ATTRIBUTE:
    case KIND_INSTANCE_LACKS:
    case KIND_HAS_NO_KEY:
        check->hash = PyObject_Hash(expected);
        if (check->hash == -1) {
            return -1;
        }
        if (check->kind == KIND_HAS_NO_KEY) {
            check->expected = hold(expected, 0, &check->is_weak);
            return check->expected == NULL ? -1 : 0;
        }
        break;
    }
    check->expected = Py_NewRef(expected);
    return 0;
}

static int build_nodes(Guards *self, PyObject *specs, Node **nodes, int *count);

static int
build_node(Guards *self, Node *node, PyObject *spec)
{
    PyObject *argument, *checks, *children;
    if (!PyArg_ParseTuple(spec, "iOiO!O!", &node->step, &argument, &node->number, &PyTuple_Type,
                          &checks, &PyTuple_Type, &children)) {
        return -1;
    }
    if (node->step < 0 || node->step >= STEP_COUNT || node->number >= self->node_count) {
        PyErr_SetString(PyExc_ValueError, "guard tree: unknown step or node number");
        return -1;
    }
    if (node->step == STEP_KEY || node->step == STEP_CONSTANT) {
        node->argument = hold(argument, node->step == STEP_CONSTANT, &node->is_weak);
        if (node->argument == NULL) {
            return -1;
        }
    }
    else {
        node->argument = Py_NewRef(argument);
    }
    node->cached_slot = -1;
    if (PyUnicode_CheckExact(argument) && node->step != STEP_KEY && node->step != STEP_CONSTANT) {
        PyUnicode_InternInPlace(&node->argument);
    }
    if (node->step == STEP_PART) {
        node->index = part_number(argument);
        if (node->index < 0) {
            PyErr_Format(PyExc_ValueError, "guard tree: unknown part %R", argument);
            return -1;
        }
    }
    if (PyLong_CheckExact(argument) && node->step != STEP_KEY && node->step != STEP_CONSTANT) {
        node->index = PyLong_AsSsize_t(argument);
        if (node->index < 0) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "guard tree: negative index");
            }
            return -1;
        }
    }
    if (PyUnicode_CheckExact(argument) || node->step == STEP_KEY) {
        node->hash = PyObject_Hash(argument);
        if (node->hash == -1) {
            return -1;
        }
    }
    Py_ssize_t count = PyTuple_GET_SIZE(checks);
    node->checks = PyMem_Calloc(count ? count : 1, sizeof(Check));
    if (node->checks == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        node->check_count++;
        if (build_check(self, &node->checks[i], PyTuple_GET_ITEM(checks, i)) < 0) {
            return -1;
        }
    }
    return build_nodes(self, children, &node->children, &node->child_count);
}

static int
build_nodes(Guards *self, PyObject *specs, Node **nodes, int *count)
{
    Py_ssize_t size = PyTuple_GET_SIZE(specs);
    *nodes = PyMem_Calloc(size ? size : 1, sizeof(Node));
    if (*nodes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        (*count)++;
        if (build_node(self, &(*nodes)[i], PyTuple_GET_ITEM(specs, i)) < 0) {
            return -1;
        }
    }
    return 0;
}

static void
free_check(Check *check)
{
    Py_CLEAR(check->expected);
    PyMem_Free(check->weak_items);
    check->weak_items = NULL;
    if (check->tensor != NULL) {
        Py_DECREF(check->tensor->type);
        Py_DECREF(check->tensor->dtype);
        PyMem_Free(check->tensor);
        check->tensor = NULL;
    }
    if (check->predicate != NULL) {
        for (int i = 0; i < check->predicate->count; i++) {
            Py_DECREF(check->predicate->comparisons[i].constant);
        }
        PyMem_Free(check->predicate);
        check->predicate = NULL;
    }
    if (check->memory != NULL) {
        free_memory_spec(check->memory);
        check->memory = NULL;
    }
    free_relation_spec(check->relation);
    check->relation = NULL;
    free_class_spec(check->classes);
    check->classes = NULL;
    free_condition_spec(check->condition);
    check->condition = NULL;
}

static void
free_nodes(Node *nodes, int count)
{
    for (int i = 0; i < count; i++) {
        Node *node = &nodes[i];
        for (int j = 0; j < node->check_count; j++) {
            free_check(&node->checks[j]);
        }
        PyMem_Free(node->checks);
        free_nodes(node->children, node->child_count);
        Py_CLEAR(node->argument);
        Py_CLEAR(node->made);
    }
    PyMem_Free(nodes);
}

static int
visit_nodes(Node *nodes, int count, visitproc visit, void *arg)
{
    for (int i = 0; i < count; i++) {
        Node *node = &nodes[i];
        Py_VISIT(node->argument);
        for (int j = 0; j < node->check_count; j++) {
            if (node->checks[j].classes != NULL) {
                int stop = visit_class_spec(node->checks[j].classes, visit, arg);
                if (stop) {
                    return stop;
                }
            }
            if (node->checks[j].condition != NULL) {
                int stop = visit_condition_spec(node->checks[j].condition, visit, arg);
                if (stop) {
                    return stop;
                }
            }
            Py_VISIT(node->checks[j].expected);
            if (node->checks[j].tensor != NULL) {
                Py_VISIT(node->checks[j].tensor->type);
            }
        }
        int stop = visit_nodes(node->children, node->child_count, visit, arg);
        if (stop) {
            return stop;
        }
    }
    return 0;
}

/* Guards(tree, guard_count): tree is a tuple of (step, argument, number, checks, children). */
static int
count_nodes(PyObject *specs)
{
    int count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(specs); i++) {
        PyObject *spec = PyTuple_GET_ITEM(specs, i);
        if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) != 5
            || !PyTuple_Check(PyTuple_GET_ITEM(spec, 4))) {
            PyErr_SetString(PyExc_TypeError, "guard tree: expected tuples of five");
            return -1;
        }
        int below = count_nodes(PyTuple_GET_ITEM(spec, 4));
        if (below < 0) {
            return -1;
        }
        count += 1 + below;
    }
    return count;
}

static int
has_step(const Node *nodes, int count, int step)
{
    for (int i = 0; i < count; i++) {
        if (nodes[i].step == step || has_step(nodes[i].children, nodes[i].child_count, step)) {
            return 1;
        }
    }
    return 0;
}

static PyObject *
guards_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *tree;
    int guard_count;
    if (!PyArg_ParseTuple(args, "O!i", &PyTuple_Type, &tree, &guard_count)) {
        return NULL;
    }
    int node_count = count_nodes(tree);
    if (node_count < 0) {
        return NULL;
    }
    Guards *self = (Guards *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->guard_count = guard_count;
    self->node_count = node_count;
    self->values = PyMem_Calloc(node_count ? node_count : 1, sizeof(PyObject *));
    if (self->values == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    if (build_nodes(self, tree, &self->roots, &self->root_count) < 0
        || order_conditions(self, self->roots, self->root_count) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    for (int i = 0; i < self->root_count; i++) {
        self->is_deep |= self->roots[i].child_count > 0;
    }
    self->reads_arrays = has_step(self->roots, self->root_count, STEP_TENSOR_OVER);
    self->is_deep &= !self->reads_arrays; /* what a check makes is no fact of a snapshot */
    return (PyObject *)self;
}

static int
guards_traverse(Guards *self, visitproc visit, void *arg)
{
    return visit_nodes(self->roots, self->root_count, visit, arg);
}

/* No tp_clear: guards without their tree would pass. Whoever is in a cycle with them clears. */
static void
guards_dealloc(Guards *self)
{
    PyObject_GC_UnTrack(self);
    if (self->roots != NULL) {
        free_nodes(self->roots, self->root_count);
    }
    PyMem_Free(self->values);
    PyMem_Free(self->conditions);
    free_snapshot(&self->snapshot);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* They are garbage: the death of a class that is garbage with them is not counted, if a finalizer
 * should bring both back to life. */
static void
guards_finalize(PyObject *self)
{
    ((Guards *)self)->snapshot.is_valid = 0;
}

/* (flat arguments, function, first fresh slot); nothing is fresh where that is left out. */
static int
parse_call(PyObject *const *args, Py_ssize_t count, Call *call)
{
    if ((count != 2 && count != 3) || !PyTuple_Check(args[0])
        || (count == 3 && !PyLong_Check(args[2]))) {
        PyErr_SetString(PyExc_TypeError,
                        "expected (flat arguments as a tuple, function[, first fresh slot])");
        return -1;
    }
    Py_ssize_t slots = PyTuple_GET_SIZE(args[0]);
    Py_ssize_t first_fresh = count == 3 ? PyLong_AsSsize_t(args[2]) : slots;
    *call = (Call){&PyTuple_GET_ITEM(args[0], 0), slots, first_fresh, args[1],
                   2 /* the caller's, the tuple's */};
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *
guards_check_method(Guards *self, PyObject *const *args, Py_ssize_t count)
{
    Call call;
    if (parse_call(args, count, &call) < 0) {
        return NULL;
    }
    return PyBool_FromLong(guards_check(self, &call));
}

/* The numbers of a relation's terms; None for one that is missing or no int64_t. */
static PyObject *
term_numbers(const Guards *self, const RelationSpec *spec)
{
    PyObject *numbers = PyTuple_New(spec->term_count);
    for (int i = 0; numbers != NULL && i < spec->term_count; i++) {
        int64_t number;
        PyObject *item = read_term(self, spec->terms[i], &number) ? PyLong_FromLongLong(number)
                                                                  : Py_NewRef(Py_None);
        if (item == NULL) {
            Py_CLEAR(numbers);
            break;
        }
        PyTuple_SET_ITEM(numbers, i, item);
    }
    return numbers;
}

static PyObject *
first_failure(Guards *self, const Call *call)
{
    self->values_changed = 1;
    self->held = call->held;
    self->failed_relation = NULL;
    self->failed_condition = NULL;
    self->failed_class.change = NULL;
    if (check_tree(self, call)) {
        Py_RETURN_NONE;
    }
    if (self->failed_relation != NULL) {
        return Py_BuildValue("iN", self->failed_guard, term_numbers(self, self->failed_relation));
    }
    if (self->failed_condition != NULL) {
        return Py_BuildValue("iN", self->failed_guard,
                             condition_numbers(self, self->failed_condition));
    }
    const ClassChange *change = &self->failed_class;
    if (change->change != NULL) {
        return Py_BuildValue("i(OOs)", self->failed_guard, change->cls,
                             change->name == NULL ? Py_None : change->name, change->change);
    }
    PyObject *value = self->failed_value == NULL ? Py_NotImplemented : self->failed_value;
    return Py_BuildValue("iO", self->failed_guard, value);
}

static PyObject *
guards_first_failure(Guards *self, PyObject *const *args, Py_ssize_t count)
{
    Call call;
    if (parse_call(args, count, &call) < 0) {
        return NULL;
    }
    PyObject *failure = first_failure(self, &call);
    if (self->reads_arrays) {
        release_tensors(self->roots, self->root_count);
    }
    return failure;
}

static int
is_check_dead(const Check *check)
{
    if (check->is_weak && weak_target(check->expected) == NULL) {
        return 1;
    }
    for (Py_ssize_t i = 0; check->weak_items != NULL && i < PyTuple_GET_SIZE(check->expected); i++) {
        if (check->weak_items[i] && weak_target(PyTuple_GET_ITEM(check->expected, i)) == NULL) {
            return 1;
        }
    }
    return 0;
}

/* Does some node refer to an object that has died? */
static int
are_dead(const Node *nodes, int count)
{
    for (int i = 0; i < count; i++) {
        const Node *node = &nodes[i];
        if (node->is_weak && weak_target(node->argument) == NULL) {
            return 1;
        }
        for (int j = 0; j < node->check_count; j++) {
            if (is_check_dead(&node->checks[j])) {
                return 1;
            }
        }
        if (are_dead(node->children, node->child_count)) {
            return 1;
        }
    }
    return 0;
}

static PyObject *
guards_is_dead(Guards *self, void *closure)
{
    return PyBool_FromLong(are_dead(self->roots, self->root_count));
}

static PyObject *
guards_facts(Guards *self, void *closure)
{
    const Snapshot *snapshot = &self->snapshot;
    if (!snapshot->is_valid) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("iii", snapshot->word_count, snapshot->slow_count, snapshot->level_count);
}

static PyMethodDef guards_methods[] = {
    {"check", (PyCFunction)(void (*)(void))guards_check_method, METH_FASTCALL,
     "check(args, function, first_fresh=len(args)) -> bool: do all guards hold for these flat\n"
     "arguments? Those from `first_fresh` on are made anew for every call."},
    {"first_failure", (PyCFunction)(void (*)(void))guards_first_failure, METH_FASTCALL,
     "first_failure(args, function) -> (guard number, value now) or None. The value is\n"
     "NotImplemented where the place does not exist."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef guards_members[] = {
    {"walks", T_ULONGLONG, offsetof(Guards, walks), READONLY,
     "How often all guards were checked one by one so far, without a snapshot."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef guards_getset[] = {
    {"facts", (getter)guards_facts, NULL,
     "The snapshot: (words compared, facts that take more, levels of words); None without one.",
     NULL},
    {"is_dead", (getter)guards_is_dead, NULL,
     "An object that they ask for has died: they never hold again.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject GuardsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.capture._capture.Guards",
    .tp_doc = "Guards(tree, guard_count): the guards of one region, evaluated in C.",
    .tp_basicsize = sizeof(Guards),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = guards_new,
    .tp_dealloc = (destructor)guards_dealloc,
    .tp_traverse = (traverseproc)guards_traverse,
    .tp_finalize = guards_finalize,
    .tp_methods = guards_methods,
    .tp_members = guards_members,
    .tp_getset = guards_getset,
};

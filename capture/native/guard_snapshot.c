/* The snapshot is a list of facts that together imply the result of the tree walk at which they
 * were recorded. They are ordered so that an address is read only after earlier facts have shown
 * that the object around it is alive: an argument is alive; what a dict with an unchanged version
 * holds is the same living object (versions are unique over all dicts); a pointer found again in
 * a living object points to a living object, but after free and reuse of the address perhaps to
 * another one. So what hangs on a bare pointer is either checked again (leaves) or described by
 * further facts: class, dict pointer, dict version. */
#include "dict_versions.h"
#include "guards.h"

static int
record_fact(Guards *self, int kind, Node *node, PyObject *base, void *address, uint64_t expected)
{
    if (self->fact_count == self->fact_capacity) {
        int capacity = self->fact_capacity ? 2 * self->fact_capacity : 32;
        Fact *facts = PyMem_Realloc(self->facts, capacity * sizeof(Fact));
        if (facts == NULL) {
            return -1;
        }
        self->facts = facts;
        self->fact_capacity = capacity;
    }
    self->facts[self->fact_count++] = (Fact){kind, node, base, address, expected, NULL};
    return 0;
}

static int
record_word(Guards *self, void *address, const void *expected)
{
    return record_fact(self, FACT_WORD, NULL, NULL, address, (uint64_t)(uintptr_t)expected);
}

static int
record_version(Guards *self, Node *node, PyObject *base, PyObject *dict)
{
    uint64_t *address = dict_version(dict);
    if (keep_version(dict) < 0
        || record_fact(self, FACT_VERSION, node, base, address, *address) < 0) {
        return -1;
    }
    self->facts[self->fact_count - 1].dict = dict;
    return 0;
}

static int
record_tag(Guards *self, PyTypeObject *type)
{
    if (type->tp_version_tag == 0) {
        return -1;
    }
    for (int i = self->fact_count - 1; i >= 0 && i > self->fact_count - 64; i--) {
        if (self->facts[i].kind == FACT_TAG && self->facts[i].address == &type->tp_version_tag) {
            return 0;
        }
    }
    return record_fact(self, FACT_TAG, NULL, NULL, &type->tp_version_tag, type->tp_version_tag);
}

static int
record_step(Guards *self, Node *node, PyObject *base)
{
    return record_fact(self, FACT_STEP, node, base, NULL, 0);
}

static int
record_tensor(Guards *self, Node *node, PyObject *tensor)
{
    if (self->tensor_count == self->tensor_capacity) {
        int capacity = self->tensor_capacity ? 2 * self->tensor_capacity : 32;
        CoveredTensor *tensors = PyMem_Realloc(self->tensors, capacity * sizeof(CoveredTensor));
        if (tensors == NULL) {
            return -1;
        }
        self->tensors = tensors;
        self->tensor_capacity = capacity;
    }
    self->tensors[self->tensor_count++] = (CoveredTensor){node, tensor};
    return record_word(self, &tensor->ob_type, Py_TYPE(tensor));
}

static int
is_about_contents(int kind)
{
    return kind == KIND_LENGTH || kind == KIND_TRUE_VALUE || kind == KIND_DICT_KEYS
           || kind == KIND_HAS_NO_KEY;
}

/* Only instances of classes made at run time can be given another class. */
static int
has_fixed_class(PyObject *object)
{
    return !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) && !PyModule_Check(object);
}

/* A leaf whose identity an unchanged dict (or class) proves. 1: facts recorded that make its
 * checks hold; 0: its checks must run each time; -1: no snapshot. */
static int
record_pinned_leaf(Guards *self, Node *node, PyObject *value)
{
    int needs_version = 0, needs_size = 0, needs_type = 0, is_covered_tensor = 0;
    for (int i = 0; i < node->check_count; i++) {
        int kind = node->checks[i].kind;
        if ((kind == KIND_LENGTH || kind == KIND_TRUE_VALUE) && PyDict_Check(value)
            && has_fixed_class(value)) {
            needs_size = 1;
        }
        else if (is_about_contents(kind) && PyDict_CheckExact(value)) {
            needs_version = 1;
        }
        else if (kind == KIND_TYPE_IS) {
            needs_type = 1;
        }
        else if (kind == KIND_TENSOR && ((TensorObject *)value)->replay == NULL) {
            is_covered_tensor = 1;
        }
        else if (kind == KIND_FUNCTION) {
            if (record_word(self, &((PyFunctionObject *)value)->func_code,
                            node->checks[i].expected) < 0) {
                return -1;
            }
        }
        else if (kind != KIND_IDENTITY && kind != KIND_EQUALS && kind != KIND_PREDICATE
                 && kind != KIND_STORAGE_EQUALS
                 && kind != KIND_NOT_ALIASED && kind != KIND_ALIASED
                 && kind != KIND_SEPARATE_MEMORY && kind != KIND_RELATION) {
            return 0;
        }
    }
    if (needs_type && !has_fixed_class(value)
        && record_word(self, &value->ob_type, Py_TYPE(value)) < 0) {
        return -1;
    }
    if (needs_size) {
        PyDictObject *dict = (PyDictObject *)value;
        if (record_word(self, &dict->ma_used, (void *)dict->ma_used) < 0) {
            return -1;
        }
    }
    if (needs_version && record_version(self, node, value, value) < 0) {
        return -1;
    }
    if (is_covered_tensor && record_tensor(self, node, value) < 0) {
        return -1;
    }
    return 1;
}

static int record_object(Guards *self, Node *node, PyObject *object, int is_pinned);

/* A child whose value an unchanged dict or class holds. */
static int
record_pinned_child(Guards *self, Node *child, PyObject *base, PyObject *value)
{
    child->seen = value;
    if (!is_leaf(child)) {
        return record_object(self, child, value, 1);
    }
    int covered = record_pinned_leaf(self, child, value);
    if (covered == 0) {
        return record_step(self, child, base);
    }
    return covered < 0 ? -1 : 0;
}

/* True if every check of a leaf only asks for objects that the checks own, and finds them: then
 * the pointer says it all, because their addresses cannot be used again. */
static int
is_owned_constant(const Node *node, PyObject *value)
{
    for (int i = 0; i < node->check_count; i++) {
        const Check *check = &node->checks[i];
        int by_value = check->kind == KIND_EQUALS || check->kind == KIND_IDENTITY;
        if (!by_value || check->is_weak || check->expected != value) {
            return 0;
        }
    }
    return node->check_count > 0;
}

/* A child whose value is found at an address inside a living object. */
static int
record_stored_child(Guards *self, Node *child, PyObject **address, PyObject *value)
{
    child->seen = value;
    if (!is_leaf(child)) {
        return record_word(self, address, value) < 0 ? -1 : record_object(self, child, value, 0);
    }
    if (is_owned_constant(child, value)) {
        return record_word(self, address, value);
    }
    return record_fact(self, FACT_LEAF, child, NULL, address, 0);
}

static int
record_inline_attribute(Guards *self, Node *child, PyObject *object, PyDictValues *values,
                        PyObject *value)
{
    Py_ssize_t slot = shared_key_index(Py_TYPE(object), child->argument);
    if (slot < 0) {
        return record_step(self, child, object); /* a class attribute; the name may yet be stored */
    }
    PyObject **address = &values->values[slot];
    if (*address != NULL) {
        return record_stored_child(self, child, address, value);
    }
    return record_word(self, address, NULL) < 0 ? -1
                                                : record_pinned_child(self, child, object, value);
}

static int
record_attribute(Guards *self, Node *child, PyObject *object, const Storage *storage)
{
    PyObject *value = read_attribute(child, object);
    PyObject *descriptor;
    if (value == NULL || class_lookup(child, Py_TYPE(object), &descriptor) < 0) {
        return -1;
    }
    child->seen = value;
    if (descriptor != NULL && Py_TYPE(descriptor)->tp_descr_set != NULL) {
        if (Py_TYPE(descriptor) != &PyMemberDescr_Type || value == Py_None) {
            return record_step(self, child, object);
        }
        PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
        return record_stored_child(self, child, (PyObject **)((char *)object + member->offset),
                                   value);
    }
    if (storage->values != NULL) {
        return record_inline_attribute(self, child, object, storage->values, value);
    }
    if (storage->dict == NULL) {
        return record_step(self, child, object);
    }
    return record_pinned_child(self, child, object, value);
}

/* That the instance still keeps its attributes in the same place. */
static int
record_storage(Guards *self, Node *node, PyObject *object, const Storage *storage)
{
    if (record_tag(self, Py_TYPE(object)) < 0) {
        return -1;
    }
    if (storage->values != NULL) {
#if PY_VERSION_HEX < 0x030C0000
        return record_word(self, _PyObject_ValuesPointer(object), storage->values);
#elif PY_VERSION_HEX < 0x030D0000
        PyDictOrValues *pointer = _PyObject_DictOrValuesPointer(object);
        return record_word(self, pointer, pointer->values);
#else
        return record_fact(self, FACT_BYTE, NULL, NULL, &storage->values->valid, 1);
#endif
    }
    if (storage->dict == NULL) {
        return 0;
    }
    return record_word(self, storage->address, storage->dict) < 0
               ? -1
               : record_version(self, node, object, storage->dict);
}

static int
record_closure(Guards *self, Node *child, PyObject *object)
{
    PyFunctionObject *function = (PyFunctionObject *)object;
    PyObject *cell = read_closure_cell(object, child->index);
    if (cell == NULL || PyCell_GET(cell) == NULL) {
        return -1;
    }
    PyObject **item = &PyTuple_GET_ITEM(function->func_closure, child->index);
    if (record_word(self, &function->func_closure, function->func_closure) < 0
        || record_word(self, item, cell) < 0) {
        return -1;
    }
    return record_stored_child(self, child, &((PyCellObject *)cell)->ob_ref, PyCell_GET(cell));
}

static int
record_item(Guards *self, Node *child, PyObject *object)
{
    PyObject *value = read_item(object, child->index);
    if (value == NULL) {
        return -1;
    }
    if (is_leaf(child)) {
        child->seen = value;
        return record_step(self, child, object);
    }
    if (record_word(self, &((PyVarObject *)object)->ob_size, (void *)Py_SIZE(object)) < 0) {
        return -1;
    }
    if (PyTuple_Check(object)) {
        return record_stored_child(self, child, &PyTuple_GET_ITEM(object, child->index), value);
    }
    PyListObject *list = (PyListObject *)object;
    if (record_word(self, &list->ob_item, list->ob_item) < 0) {
        return -1;
    }
    return record_stored_child(self, child, &list->ob_item[child->index], value);
}

static int
record_child(Guards *self, Node *child, PyObject *object, const Storage *storage)
{
    switch (child->step) {
    case STEP_ATTRIBUTE:
        if (PyType_Check(object)) {
            break;
        }
        return record_attribute(self, child, object, storage);
    case STEP_CLASS_ATTRIBUTE:
    case STEP_KEY:
    case STEP_GLOBAL:
    case STEP_BUILTIN: {
        PyObject *value = read_step(child, object);
        return value == NULL ? -1 : record_pinned_child(self, child, object, value);
    }
    case STEP_CLOSURE:
        return record_closure(self, child, object);
    case STEP_ITEM:
        return record_item(self, child, object);
    }
    child->seen = read_step(child, object);
    return record_step(self, child, object);
}

/* Which dicts and classes the children of a node are read from. */
typedef struct {
    int attributes, class_attributes, keys, globals, builtins;
} Uses;

static Uses
uses_of(const Node *node)
{
    Uses uses = {0, 0, 0, 0, 0};
    for (int i = 0; i < node->child_count; i++) {
        int step = node->children[i].step;
        uses.attributes |= step == STEP_ATTRIBUTE;
        uses.class_attributes |= step == STEP_CLASS_ATTRIBUTE;
        uses.keys |= step == STEP_KEY;
        uses.globals |= step == STEP_GLOBAL || step == STEP_BUILTIN;
        uses.builtins |= step == STEP_BUILTIN;
    }
    return uses;
}

/* The own checks of an inner node at a known address whose class is a fact already.
 * has_version: of the object, a dict; has_fields: of its own dict, where it keeps its attributes. */
static int
record_own_checks(Guards *self, Node *node, PyObject *object, int has_version, int has_fields)
{
    int must_run = 0;
    for (int i = 0; i < node->check_count; i++) {
        Check *check = &node->checks[i];
        if (check->kind == KIND_IDENTITY) {
            void *address = &((PyWeakReference *)check->expected)->wr_object;
            if (check->is_weak && record_word(self, address, object) < 0) {
                return -1;
            }
        }
        else if (check->kind == KIND_FUNCTION) {
            if (record_word(self, &((PyFunctionObject *)object)->func_code, check->expected) < 0) {
                return -1;
            }
        }
        else if (is_about_contents(check->kind) && PyDict_CheckExact(object)) {
            must_run |= !has_version;
        }
        else if (check->kind == KIND_INSTANCE_LACKS || check->kind == KIND_HAS_NO_ATTRIBUTE) {
            must_run |= !has_fields;
        }
        else if (check->kind != KIND_TYPE_IS && check->kind != KIND_NOT_ALIASED
                 && check->kind != KIND_ALIASED && check->kind != KIND_SEPARATE_MEMORY
                 && check->kind != KIND_RELATION) {
            must_run = 1;
        }
    }
    return must_run ? record_fact(self, FACT_CHECKS, node, object, NULL, 0) : 0;
}

/* An inner node at a known address: its class, what it holds, and everything below.
 * is_pinned: earlier facts say that it is this very object, not only one at its address. */
static int
record_object(Guards *self, Node *node, PyObject *object, int is_pinned)
{
    Uses uses = uses_of(node);
    Storage storage = {NULL, NULL, NULL};
    if (!(is_pinned && has_fixed_class(object))
        && record_word(self, &object->ob_type, Py_TYPE(object)) < 0) {
        return -1;
    }
    if (uses.attributes && !PyType_Check(object)) {
        storage = storage_of(object);
        if (record_storage(self, node, object, &storage) < 0) {
            return -1;
        }
    }
    else if (uses.class_attributes && record_tag(self, Py_TYPE(object)) < 0) {
        return -1;
    }
    if (uses.keys && record_version(self, node, object, object) < 0) {
        return -1;
    }
    if (uses.globals) {
        PyFunctionObject *function = (PyFunctionObject *)object;
        if (record_word(self, &function->func_globals, function->func_globals) < 0
            || record_version(self, node, object, function->func_globals) < 0) {
            return -1;
        }
        if (uses.builtins
            && (record_word(self, &function->func_builtins, function->func_builtins) < 0
                || record_version(self, node, object, function->func_builtins) < 0)) {
            return -1;
        }
    }
    if (record_own_checks(self, node, object, uses.keys, storage.dict != NULL) < 0) {
        return -1;
    }
    for (int i = 0; i < node->child_count; i++) {
        if (record_child(self, &node->children[i], object, &storage) < 0) {
            return -1;
        }
    }
    return 0;
}

/* After a successful walk of the tree: remember the facts that made it succeed. */
static void
record_snapshot(Guards *self, PyObject *const *slots, PyObject *function)
{
    self->fact_count = 0;
    self->tensor_count = 0;
    self->snapshot_valid = 0;
    self->epoch = *tensor_api->metadata_epoch;
    for (int i = 0; i < self->root_count; i++) {
        Node *root = &self->roots[i];
        if (is_leaf(root)) {
            continue;
        }
        root->seen = read_root(root, slots, function);
        if (record_object(self, root, root->seen, 0) < 0) {
            self->fact_count = 0;
            self->pause = 1000; /* something here cannot be described: rarely worth trying again */
            return;
        }
    }
    self->snapshot_valid = 1;
    self->values_changed = 0;
}

static int
is_dict_backed(const Node *node)
{
    return node->step == STEP_KEY || node->step == STEP_ATTRIBUTE || node->step == STEP_GLOBAL
           || node->step == STEP_BUILTIN;
}

/* Only checks that look at nothing but an immutable value, and no facts beyond the dict's. */
static int
checks_plain_value(const Node *node)
{
    for (int i = 0; i < node->check_count; i++) {
        int kind = node->checks[i].kind;
        if (kind != KIND_EQUALS && kind != KIND_PREDICATE) {
            return 0;
        }
    }
    return is_leaf(node);
}

static int
run_own_checks(Guards *self, Node *node, PyObject *value)
{
    for (int i = 0; i < node->check_count; i++) {
        if (!check_value(self, &node->checks[i], value)) {
            return 0;
        }
    }
    return 1;
}

/* A dict changed: does it still hold what the facts after this one are about? */
static int
look_again(Guards *self, Node *node, PyObject *base)
{
    if (!run_own_checks(self, node, base)) {
        return 0;
    }
    for (int i = 0; i < node->child_count; i++) {
        Node *child = &node->children[i];
        if (!is_dict_backed(child)) {
            continue;
        }
        PyObject *value = read_step(child, base);
        if (value == NULL || (value != child->seen && !checks_plain_value(child))) {
            return 0;
        }
        if (is_leaf(child)) { /* the same address may be another object by now */
            if (!walk(self, child, value)) {
                return 0;
            }
            child->seen = value;
        }
    }
    return 1;
}

static int
fact_holds_slowly(Guards *self, Fact *fact)
{
    PyObject *value;
    switch (fact->kind) {
    case FACT_VERSION:
        if (keep_version(fact->dict) < 0 || !look_again(self, fact->node, fact->base)) {
            return 0;
        }
        fact->expected = *(uint64_t *)fact->address;
        return 1;
    case FACT_LEAF:
        value = *(PyObject **)fact->address;
        return value != NULL && walk(self, fact->node, value);
    case FACT_STEP:
        value = read_step(fact->node, fact->base);
        return value != NULL && walk(self, fact->node, value);
    case FACT_CHECKS:
        return run_own_checks(self, fact->node, fact->base);
    case FACT_TAG:
        return *(unsigned int *)fact->address == fact->expected;
    case FACT_BYTE:
        return *(uint8_t *)fact->address == fact->expected;
    default:
        return 0;
    }
}

static int
facts_hold(Guards *self)
{
    Fact *fact = self->facts, *end = self->facts + self->fact_count;
    for (; fact < end; fact++) {
        if (fact->kind <= FACT_VERSION && *(uint64_t *)fact->address == fact->expected) {
            continue;
        }
        if (!fact_holds_slowly(self, fact)) {
            return 0;
        }
    }
    if (self->epoch != *tensor_api->metadata_epoch) { /* some tensor's metadata was replaced */
        for (int i = 0; i < self->tensor_count; i++) {
            CoveredTensor *covered = &self->tensors[i];
            if (((TensorObject *)covered->tensor)->replay != NULL
                || !walk(self, covered->node, covered->tensor)) {
                return 0;
            }
        }
        self->epoch = *tensor_api->metadata_epoch;
    }
    return 1;
}

enum Outcome { OUTCOME_HOLDS, OUTCOME_FAILS, OUTCOME_UNKNOWN };

static enum Outcome
check_snapshot(Guards *self, PyObject *const *slots, Py_ssize_t slot_count, PyObject *function)
{
    for (int i = 0; i < self->root_count; i++) {
        Node *root = &self->roots[i];
        if (root->step == STEP_SLOT && root->index >= slot_count) {
            return OUTCOME_FAILS;
        }
        PyObject *value = read_root(root, slots, function);
        if (!is_leaf(root)) {
            if (value != root->seen) {
                return OUTCOME_UNKNOWN;
            }
        }
        else if (!walk(self, root, value)) {
            return self->stale == NULL ? OUTCOME_FAILS : OUTCOME_UNKNOWN;
        }
    }
    if (self->fact_count && !facts_hold(self)) {
        return OUTCOME_UNKNOWN;
    }
    if (self->has_relations) {
        for (int i = 0; i < self->root_count; i++) {
            if (!walk_relations(self, &self->roots[i])) {
                return OUTCOME_FAILS;
            }
        }
    }
    return OUTCOME_HOLDS;
}

/* A snapshot that keeps failing is not worth taking: wait longer and longer. */
#define SNAPSHOT_PATIENCE 4
#define SNAPSHOT_LONGEST_PAUSE 256

static int
check_once(Guards *self, PyObject *const *slots, Py_ssize_t slot_count, PyObject *function)
{
    if (!self->is_deep) {
        return check_tree(self, slots, slot_count, function);
    }
    int usable = self->snapshot_valid && !(self->has_relations && self->values_changed);
    if (usable && self->pause == 0) {
        self->stale = NULL;
        enum Outcome outcome = check_snapshot(self, slots, slot_count, function);
        if (outcome == OUTCOME_HOLDS) {
            self->misses = 0;
            return 1;
        }
        if (outcome == OUTCOME_FAILS) {
            return 0;
        }
    }
    self->values_changed = 1;
    if (!check_tree(self, slots, slot_count, function)) {
        return 0;
    }
    if (self->pause > 0) {
        self->pause--;
        return 1;
    }
    if (usable && ++self->misses > SNAPSHOT_PATIENCE) {
        unsigned int pause = 1u << (self->misses < 8 ? self->misses : 8);
        self->pause = pause < SNAPSHOT_LONGEST_PAUSE ? pause : SNAPSHOT_LONGEST_PAUSE;
    }
    record_snapshot(self, slots, function);
    return 1;
}

/* Do all guards hold? No for a second check while one is running, which is possible only where a
 * dict key calls user code or a stale view is refreshed: a miss is slow, but never wrong. */
int
guards_check(Guards *self, PyObject *const *slots, Py_ssize_t slot_count, PyObject *function)
{
    if (self->is_busy) {
        return 0;
    }
    self->is_busy = 1;
    int holds = check_once(self, slots, slot_count, function);
    self->is_busy = 0;
    return holds;
}

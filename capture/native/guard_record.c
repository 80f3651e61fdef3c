/* Taking a snapshot: after a successful walk of the tree, the facts that made it succeed.
 *
 * Contract. The facts together imply the result of the walk. Every word has a level: its address
 * may be read once all words of lower levels hold, because those show that the object around it is
 * alive. An argument is alive; what a dict with an unchanged version holds is the same living
 * object (versions are unique over all dicts), "pinned"; a pointer found again in a living object
 * points to a living object, but after free and reuse of the address perhaps to another one. So
 * what hangs on a bare pointer is either checked again (slow facts) or described by further words:
 * class, dict pointer, dict version. Slow facts run when all words hold.
 */
#include "dict_versions.h"
#include "guards.h"

/* A word before it has its place. Snapshots are taken under the GIL, one at a time: the buffer is
 * shared by all guards. */
typedef struct {
    Word word;
    Origin origin;
    int level;
} FoundWord;

static struct {
    FoundWord *words;
    int count, capacity;
    int level_count;
} found;

static int
grow(void **items, int *capacity, size_t size)
{
    int wanted = *capacity ? 2 * *capacity : 32;
    void *larger = PyMem_Realloc(*items, wanted * size);
    if (larger == NULL) {
        return -1;
    }
    *items = larger;
    *capacity = wanted;
    return 0;
}

static int
record(const void *address, uint64_t expected, Origin origin, int level)
{
    if (found.count == found.capacity
        && grow((void **)&found.words, &found.capacity, sizeof(FoundWord)) < 0) {
        return -1;
    }
    found.words[found.count++] = (FoundWord){{address, expected}, origin, level};
    found.level_count = level >= found.level_count ? level + 1 : found.level_count;
    return 0;
}

/* The eight bytes at `address` are what they are now. */
static int
record_now(const void *address, int level)
{
    return record(address, *(const MemoryWord *)address, (Origin){NULL, NULL, NULL}, level);
}

/* A call of the function runs the code that it runs now. */
static int
record_function(PyObject *object, int level)
{
    PyFunctionObject *function = (PyFunctionObject *)object;
    return record_now(&function->func_code, level) < 0 ? -1
                                                       : record_now(&function->vectorcall, level);
}

static int
record_pointer(const void *address, const void *expected, int level)
{
    return record(address, (uint64_t)(uintptr_t)expected, (Origin){NULL, NULL, NULL}, level);
}

/* The dict, which is read below `node` at `base`, has not changed. */
static int
record_version(Node *node, PyObject *base, PyObject *dict, int level)
{
    if (keep_version(dict) < 0) {
        return -1;
    }
    uint64_t *address = dict_version(dict);
    return record(address, *address, (Origin){node, base, dict}, level);
}

/* The object that is referred to weakly lives: it is no other one at its address. */
static int
record_alive(PyObject *reference)
{
    return record_now(counts_death(reference) ? (const void *)death_count()
                                              : &((PyWeakReference *)reference)->wr_object, 0);
}

static int
record_class(PyObject *object, int level)
{
    return record_pointer(&object->ob_type, Py_TYPE(object), level);
}

/* Neither the class nor a base of it has changed. The tag fills half of the word; nobody writes the
 * other half, and if somebody did, the snapshot would only be taken again. */
static int
record_tag(PyTypeObject *type, int level)
{
    static_assert(offsetof(PyTypeObject, tp_version_tag) % 8 == 0, "the tag starts a word");
    if (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) {
        return 0;
    }
    return type->tp_version_tag == 0 ? -1 : record_now(&type->tp_version_tag, level);
}

static int
record_slow(Guards *self, int kind, Node *node, PyObject *base, PyObject **address)
{
    Snapshot *snapshot = &self->snapshot;
    if (snapshot->slow_count == snapshot->slow_capacity
        && grow((void **)&snapshot->slow, &snapshot->slow_capacity, sizeof(SlowFact)) < 0) {
        return -1;
    }
    snapshot->slow[snapshot->slow_count++] = (SlowFact){kind, node, base, address};
    return 0;
}

static int
record_step(Guards *self, Node *node, PyObject *base)
{
    return record_slow(self, SLOW_STEP, node, base, NULL);
}

static int
record_tensor(Guards *self, Node *node, PyObject *tensor, int level)
{
    Snapshot *snapshot = &self->snapshot;
    if (snapshot->tensor_count == snapshot->tensor_capacity
        && grow((void **)&snapshot->tensors, &snapshot->tensor_capacity, sizeof(CoveredTensor)) < 0) {
        return -1;
    }
    snapshot->tensors[snapshot->tensor_count++] = (CoveredTensor){node, tensor};
    return record_class(tensor, level);
}

/* ------------------------------------------------------------------------------- Objects ---- */

static int
is_about_contents(int kind)
{
    return kind == KIND_LENGTH || kind == KIND_AT_MOST || kind == KIND_TRUE_VALUE
           || kind == KIND_DICT_KEYS || kind == KIND_HAS_NO_KEY;
}

/* Where an exact list or tuple keeps its length. */
static int
has_own_size(int kind, PyObject *object)
{
    return kind == KIND_LENGTH && (PyTuple_CheckExact(object) || PyList_CheckExact(object));
}

/* Checked after everything else, or implied by the place of the node. */
static int
is_about_identity(int kind)
{
    return kind == KIND_NOT_ALIASED || kind == KIND_ALIASED || kind == KIND_SEPARATE_MEMORY
           || kind == KIND_RELATION || kind == KIND_CONDITION;
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
record_pinned_leaf(Guards *self, Node *node, PyObject *value, int level)
{
    int needs_version = 0, needs_size = 0, needs_type = 0, is_covered_tensor = 0;
    PyObject *reference = NULL; /* to its class */
    for (int i = 0; i < node->check_count; i++) {
        int kind = node->checks[i].kind;
        if ((kind == KIND_LENGTH || kind == KIND_TRUE_VALUE) && PyDict_Check(value)
            && has_fixed_class(value)) {
            needs_size = 1;
        }
        else if (is_about_contents(kind) && PyDict_CheckExact(value)) {
            needs_version = 1;
        }
        else if (has_own_size(kind, value)) {
            if (record_now(&((PyVarObject *)value)->ob_size, level) < 0) {
                return -1;
            }
        }
        else if (kind == KIND_TYPE_IS) {
            needs_type = !has_fixed_class(value);
            reference = node->checks[i].is_weak ? node->checks[i].expected : NULL;
        }
        else if (kind == KIND_TENSOR && ((TensorObject *)value)->replay == NULL) {
            is_covered_tensor = 1;
        }
        else if (kind == KIND_FUNCTION) {
            if (record_function(value, level) < 0) {
                return -1;
            }
        }
        else if (kind != KIND_IDENTITY && kind != KIND_EQUALS && kind != KIND_STORAGE_EQUALS
                 && kind != KIND_PREDICATE && kind != KIND_EXISTS && !is_about_identity(kind)) {
            return 0;
        }
    }
    if ((needs_type && record_class(value, level) < 0)
        || (needs_size && record_now(&((PyDictObject *)value)->ma_used, level) < 0)
        || (needs_version && record_version(node, value, value, level) < 0)
        || (reference != NULL && !is_covered_tensor && record_alive(reference) < 0)
        || (is_covered_tensor && record_tensor(self, node, value, level) < 0)) {
        return -1;
    }
    return 1;
}

static int record_object(Guards *self, Node *node, PyObject *object, int level, int is_pinned);

/* A child whose value an unchanged dict or class holds; both are known below `level`. */
static int
record_pinned_child(Guards *self, Node *child, PyObject *base, PyObject *value, int level)
{
    child->seen = value;
    if (!is_leaf(child)) {
        return record_object(self, child, value, level, 1);
    }
    int covered = record_pinned_leaf(self, child, value, level);
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

/* The weak reference to the object that a leaf must be, if nothing else is asked of it but the code
 * of a function; else NULL. */
static PyWeakReference *
remembered(const Node *node)
{
    if (node->check_count == 0 || node->checks[0].kind != KIND_IDENTITY
        || !node->checks[0].is_weak) {
        return NULL; /* of the two kinds this one comes first */
    }
    for (int i = 1; i < node->check_count; i++) {
        if (node->checks[i].kind != KIND_FUNCTION) {
            return NULL;
        }
    }
    return (PyWeakReference *)node->checks[0].expected;
}

/* Both hold the same object still, and its code is the same. The checks own the reference. */
static int
record_remembered(const Node *leaf, PyWeakReference *reference, PyObject **address, int level)
{
    PyObject *value = *address;
    if (record_pointer(address, value, level) < 0
        || record_pointer(&reference->wr_object, value, 0) < 0) {
        return -1;
    }
    return leaf->check_count == 1
               ? 0
               : record_function(value, level + 1);
}

/* A child whose value is found at an address inside an object that is known below `level`. */
static int
record_stored_child(Guards *self, Node *child, PyObject **address, PyObject *value, int level)
{
    child->seen = value;
    if (!is_leaf(child)) {
        return record_pointer(address, value, level) < 0
                   ? -1
                   : record_object(self, child, value, level + 1, 0);
    }
    if (is_owned_constant(child, value)) {
        return record_pointer(address, value, level);
    }
    PyWeakReference *reference = remembered(child);
    if (reference != NULL) {
        return record_remembered(child, reference, address, level);
    }
    return record_slow(self, SLOW_LEAF, child, NULL, address);
}

/* ----------------------------------------------------------------------------- Attributes ---- */

/* Where an instance keeps its attributes, and from which level on they may be read. */
typedef struct {
    Storage storage;
    int level;
} Fields;

/* The name is not stored in the instance: neither its slot is filled, nor has its class got a slot
 * for that name since. `level`: of the fields. */
static int
record_empty_slot(PyObject *object, PyObject *name, const Fields *fields)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_ssize_t slot = shared_key_index(type, name);
    if (slot >= 0) {
        return record_pointer(&fields->storage.values->values[slot], NULL, fields->level);
    }
    PyDictKeysObject *keys = ((PyHeapTypeObject *)type)->ht_cached_keys;
    if (keys == NULL) {
        return -1;
    }
    return record_pointer(&((PyHeapTypeObject *)type)->ht_cached_keys, keys, fields->level) < 0
               ? -1
               : record_now(&keys->dk_nentries, fields->level + 1);
}

static int
record_inline_attribute(Guards *self, Node *child, PyObject *object, const Fields *fields,
                        PyObject *value)
{
    Py_ssize_t slot = shared_key_index(Py_TYPE(object), child->argument);
    PyObject **address = slot < 0 ? NULL : &fields->storage.values->values[slot];
    if (address != NULL && *address != NULL) {
        return record_stored_child(self, child, address, value, fields->level);
    }
    if (record_empty_slot(object, child->argument, fields) < 0) {
        return -1;
    }
    return record_pinned_child(self, child, object, value, fields->level);
}

static int
record_attribute(Guards *self, Node *child, PyObject *object, const Fields *fields)
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
        PyObject **address = (PyObject **)((char *)object + member->offset);
        return record_stored_child(self, child, address, value, fields->level);
    }
    if (fields->storage.values != NULL) {
        return record_inline_attribute(self, child, object, fields, value);
    }
    if (fields->storage.dict == NULL) {
        return record_step(self, child, object);
    }
    return record_pinned_child(self, child, object, value, fields->level);
}

/* That the instance still keeps its attributes in the same place. Its class is known below
 * `class_level`, and what lies in it below `level`. */
static int
record_fields(Node *node, PyObject *object, int level, int class_level, Fields *fields)
{
    Storage storage = storage_of(object);
    *fields = (Fields){storage, Py_MAX(class_level, level) + 1};
    if (record_tag(Py_TYPE(object), class_level) < 0) {
        return -1;
    }
    if (PyType_Check(object)) { /* attributes of a class are found along its bases */
        *fields = (Fields){{NULL, NULL, NULL}, fields->level};
        return record_tag((PyTypeObject *)object, level);
    }
    if (storage.values != NULL) {
#if PY_VERSION_HEX < 0x030C0000
        return record_now(_PyObject_ValuesPointer(object), level);
#elif PY_VERSION_HEX < 0x030D0000
        return record_now(_PyObject_DictOrValuesPointer(object), level);
#else
        return record_now(storage.values, level); /* starts with `valid`, sizes and padding */
#endif
    }
    if (storage.dict == NULL) {
        return 0;
    }
    fields->level = Py_MAX(class_level, level + 1) + 1;
    return record_pointer(storage.address, storage.dict, level) < 0
               ? -1
               : record_version(node, object, storage.dict, level + 1);
}

/* -------------------------------------------------------------------------------- Children ---- */

/* The levels from which on what an object holds may be read. */
typedef struct {
    int plain;            /* its own memory */
    int class_attributes; /* what its class holds */
    int keys;             /* what it holds as a dict */
    int globals;          /* what the globals and builtins of a function hold */
    Fields fields;
} Access;

/* A child in a tuple that an object refers to. */
static int
record_in_tuple(Guards *self, Node *child, PyObject **tuple, int level)
{
    if (*tuple == NULL || child->index >= PyTuple_GET_SIZE(*tuple)) {
        return -1;
    }
    PyObject **item = &PyTuple_GET_ITEM(*tuple, child->index);
    if (record_now(tuple, level) < 0) {
        return -1;
    }
    if (child->step != STEP_CLOSURE) {
        return record_stored_child(self, child, item, *item, level + 1);
    }
    PyObject **contents = &((PyCellObject *)*item)->ob_ref;
    if (*contents == NULL || record_now(item, level + 1) < 0) {
        return -1;
    }
    return record_stored_child(self, child, contents, *contents, level + 2);
}

static int
record_item(Guards *self, Node *child, PyObject *object, int level)
{
    PyObject *value = read_item(object, child->index);
    if (value == NULL || record_now(&((PyVarObject *)object)->ob_size, level) < 0) {
        return -1;
    }
    if (PyTuple_Check(object)) {
        return record_stored_child(self, child, &PyTuple_GET_ITEM(object, child->index), value,
                                   level + 1);
    }
    PyListObject *list = (PyListObject *)object;
    if (record_now(&list->ob_item, level) < 0) {
        return -1;
    }
    return record_stored_child(self, child, &list->ob_item[child->index], value, level + 1);
}

/* Where an object itself refers to what the step of `child` leads to; NULL: elsewhere. */
static PyObject **
own_place(const Node *child, PyObject *object, const Fields *fields)
{
    switch (child->step) {
    case STEP_TYPE:
        return (PyObject **)&object->ob_type;
    case STEP_METHOD_FUNCTION:
        return PyMethod_Check(object) ? &((PyMethodObject *)object)->im_func : NULL;
    case STEP_METHOD_SELF:
        return PyMethod_Check(object) ? &((PyMethodObject *)object)->im_self : NULL;
    case STEP_CELL:
        return PyCell_Check(object) ? &((PyCellObject *)object)->ob_ref : NULL;
    case STEP_PART:
        return part_place(object, child->index);
    case STEP_DICT:
        return fields->storage.dict == NULL ? NULL : fields->storage.address;
    }
    return NULL;
}

static int
record_elsewhere(Guards *self, Node *child, PyObject *object, const Access *access)
{
    PyObject **place = own_place(child, object, &access->fields);
    PyObject *value = place == NULL ? read_step(child, object) : *place;
    if (value == NULL && child->step == STEP_PART && is_leaf(child)) {
        return record_pointer(place, NULL, access->plain); /* None */
    }
    if (value == NULL) {
        return -1;
    }
    if (place != NULL) {
        return record_stored_child(self, child, place, value, access->plain);
    }
    child->seen = value;
    return record_step(self, child, object);
}

static int
record_child(Guards *self, Node *child, PyObject *object, const Access *access)
{
    int level;
    switch (child->step) {
    case STEP_ATTRIBUTE:
        if (!PyType_Check(object)) {
            return record_attribute(self, child, object, &access->fields);
        }
        level = access->fields.level;
        break;
    case STEP_MEMBER:
        level = access->fields.level;
        break;
    case STEP_CLOSURE:
    case STEP_CLOSURE_CELL:
        return record_in_tuple(self, child, &((PyFunctionObject *)object)->func_closure,
                               access->plain);
    case STEP_DEFAULT:
        return record_in_tuple(self, child, &((PyFunctionObject *)object)->func_defaults,
                               access->plain);
    case STEP_ITEM:
        return record_item(self, child, object, access->plain);
    case STEP_CLASS_ATTRIBUTE:
        level = access->class_attributes;
        break;
    case STEP_KEY:
        level = access->keys;
        break;
    case STEP_GLOBAL:
    case STEP_BUILTIN:
        level = access->globals;
        break;
    default:
        return record_elsewhere(self, child, object, access);
    }
    PyObject *value = read_step(child, object);
    return value == NULL ? -1 : record_pinned_child(self, child, object, value, level);
}

/* Which dicts and classes the children of a node are read from. */
typedef struct {
    int attributes; /* or its dict as a whole */
    int class_attributes, keys, globals, builtins;
} Uses;

static Uses
uses_of(const Node *node)
{
    Uses uses = {0, 0, 0, 0, 0};
    for (int i = 0; i < node->child_count; i++) {
        int step = node->children[i].step;
        uses.attributes |= step == STEP_ATTRIBUTE || step == STEP_DICT
                           || step == STEP_MEMBER;
        uses.class_attributes |= step == STEP_CLASS_ATTRIBUTE;
        uses.keys |= step == STEP_KEY;
        uses.globals |= step == STEP_GLOBAL || step == STEP_BUILTIN;
        uses.builtins |= step == STEP_BUILTIN;
    }
    return uses;
}

/* A name that an instance lacks: 1: facts say so; 0: it must be looked up each time. */
static int
record_lacking(Check *check, PyObject *object, const Access *access)
{
    if (access->fields.storage.dict != NULL) {
        return 1; /* its version and the tag of the class are facts */
    }
    if (access->fields.storage.values == NULL) {
        return 0;
    }
    return record_empty_slot(object, check->expected, &access->fields) < 0 ? -1 : 1;
}

/* The own checks of an inner node whose class is a fact already. */
static int
record_own_checks(Guards *self, Node *node, PyObject *object, const Access *access,
                  int has_version)
{
    int must_run = 0, covered;
    for (int i = 0; i < node->check_count; i++) {
        Check *check = &node->checks[i];
        switch (check->kind) {
        case KIND_CLASS_UNCHANGED:
            must_run |= ((PyTypeObject *)object)->tp_version_tag == 0;
            if (!must_run && record_tag((PyTypeObject *)object, access->plain) < 0) {
                return -1;
            }
            break;
        case KIND_TYPE_IS: /* the class is a fact */
        case KIND_IDENTITY: /* the guards own what they refer to weakly by */
            if (check->is_weak && record_alive(check->expected) < 0) {
                return -1;
            }
            break;
        case KIND_FUNCTION:
            if (record_function(object, access->plain) < 0) {
                return -1;
            }
            break;
        case KIND_INSTANCE_LACKS:
        case KIND_HAS_NO_ATTRIBUTE:
            covered = record_lacking(check, object, access);
            if (covered < 0) {
                return -1;
            }
            must_run |= !covered;
            break;
        default:
            if (has_own_size(check->kind, object)) {
                if (record_now(&((PyVarObject *)object)->ob_size, access->plain) < 0) {
                    return -1;
                }
            }
            else if (is_about_contents(check->kind) && PyDict_CheckExact(object)) {
                must_run |= !has_version;
            }
            else {
                must_run |= !is_about_identity(check->kind);
            }
        }
    }
    return must_run ? record_slow(self, SLOW_CHECKS, node, object, NULL) : 0;
}

static int
record_globals(Node *node, PyObject *object, int level, int with_builtins)
{
    PyFunctionObject *function = (PyFunctionObject *)object;
    if (record_now(&function->func_globals, level) < 0
        || record_version(node, object, function->func_globals, level + 1) < 0) {
        return -1;
    }
    if (!with_builtins) {
        return 0;
    }
    return record_now(&function->func_builtins, level) < 0
               ? -1
               : record_version(node, object, function->func_builtins, level + 1);
}

/* An inner node that is known to live below `level`: its class, what it holds, everything below.
 * is_pinned: it is known to be this very object, not only one at its address. */
static int
record_object(Guards *self, Node *node, PyObject *object, int level, int is_pinned)
{
    Uses uses = uses_of(node);
    int is_class_known = is_pinned && has_fixed_class(object);
    if (!is_class_known && record_class(object, level) < 0) {
        return -1;
    }
    int inside = is_pinned ? level : level + 1;               /* what lies in it is as it was */
    int class_level = is_class_known ? level : level + 1;     /* its class is alive */
    Access access = {
        .plain = inside,
        .class_attributes = class_level + 1,
        .keys = inside + 1,
        .globals = inside + 2,
        .fields = {{NULL, NULL, NULL}, inside},
    };
    if (uses.attributes) {
        if (record_fields(node, object, inside, class_level, &access.fields) < 0) {
            return -1;
        }
    }
    else if (uses.class_attributes && record_tag(Py_TYPE(object), class_level) < 0) {
        return -1;
    }
    if ((uses.keys && record_version(node, object, object, inside) < 0)
        || (uses.globals && record_globals(node, object, inside, uses.builtins) < 0)
        || record_own_checks(self, node, object, &access, uses.keys) < 0) {
        return -1;
    }
    for (int i = 0; i < node->child_count; i++) {
        if (record_child(self, &node->children[i], object, &access) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ------------------------------------------------------------------------------- In order ---- */

/* Open addressing: the first word that says the same, or -1 for the word itself. */
static int
is_said_already(int *table, size_t mask, const Word *words, int i)
{
    uint64_t mixed = (uint64_t)(uintptr_t)words[i].address * 0x9E3779B97F4A7C15u;
    for (size_t place = mixed >> 32 & mask;; place = (place + 1) & mask) {
        if (table[place] == 0) {
            table[place] = i + 1;
            return 0;
        }
        const Word *other = &words[table[place] - 1];
        if (other->address == words[i].address && other->expected == words[i].expected) {
            return 1;
        }
    }
}

/* Drop words that a lower level, or the same one, says already; versions may be looked at again
 * from different places and stay. */
static void
drop_repeated(Snapshot *snapshot, int *table, size_t mask)
{
    int kept = 0, level = 0;
    memset(table, 0, (mask + 1) * sizeof(int));
    for (int i = 0; i < snapshot->word_count; i++) {
        while (i == snapshot->level_ends[level]) {
            snapshot->level_ends[level++] = kept;
        }
        snapshot->words[kept] = snapshot->words[i];
        snapshot->origins[kept] = snapshot->origins[i];
        if (snapshot->origins[kept].node != NULL
            || !is_said_already(table, mask, snapshot->words, kept)) {
            kept++;
        }
    }
    for (; level < snapshot->level_count; level++) {
        snapshot->level_ends[level] = kept;
    }
    snapshot->word_count = kept;
}

static int
reserve_words(Snapshot *snapshot)
{
    if (found.count > snapshot->word_capacity) {
        Word *words = PyMem_Realloc(snapshot->words, found.count * sizeof(Word));
        if (words == NULL) {
            return -1;
        }
        snapshot->words = words;
        Origin *origins = PyMem_Realloc(snapshot->origins, found.count * sizeof(Origin));
        if (origins == NULL) {
            return -1;
        }
        snapshot->origins = origins;
        snapshot->word_capacity = found.count;
    }
    int *ends = PyMem_Realloc(snapshot->level_ends, (found.level_count + 1) * sizeof(int));
    if (ends == NULL) {
        return -1;
    }
    snapshot->level_ends = ends;
    return 0;
}

/* From the words found, in order of their levels and each only once. */
static int
arrange_words(Snapshot *snapshot)
{
    size_t mask = 63;
    while (mask < 2 * (size_t)found.count) {
        mask = 2 * mask + 1;
    }
    int *table = PyMem_Malloc((mask + 1) * sizeof(int));
    if (table == NULL || reserve_words(snapshot) < 0) {
        PyMem_Free(table);
        return -1;
    }
    int *ends = snapshot->level_ends;
    memset(ends, 0, (found.level_count + 1) * sizeof(int));
    for (int i = 0; i < found.count; i++) {
        ends[found.words[i].level + 1]++;
    }
    for (int level = 0; level < found.level_count; level++) {
        ends[level + 1] += ends[level];
    }
    for (int i = 0; i < found.count; i++) { /* afterwards ends[level] is where the next one starts */
        int place = ends[found.words[i].level]++;
        snapshot->words[place] = found.words[i].word;
        snapshot->origins[place] = found.words[i].origin;
    }
    snapshot->word_count = found.count;
    snapshot->level_count = found.level_count;
    drop_repeated(snapshot, table, mask);
    PyMem_Free(table);
    return 0;
}

/* What an argument holds that is made anew for every call, as the tuple of *args is. */
static int
record_fresh(Guards *self, Node *root)
{
    for (int i = 0; i < root->child_count; i++) {
        Node *child = &root->children[i];
        if (is_leaf(child)) {
            continue; /* checked in every call */
        }
        child->seen = read_step(child, root->seen);
        if (child->seen == NULL || record_object(self, child, child->seen, 0, 0) < 0) {
            return -1;
        }
    }
    return 0;
}

/* A function that is a root, of which nothing is asked but its code. */
static int
record_function_root(Node *root)
{
    if (root->check_count != 1 || root->checks[0].kind != KIND_FUNCTION) {
        return 0;
    }
    return record_alive(root->argument) < 0
                   || record_function(root->seen, 1) < 0
               ? -1
               : 1;
}

/* A class that is a root, of which nothing is asked but that it is unchanged, and its class; or a
 * function. 1: facts say it all. */
static int
record_constant_root(Node *root)
{
    if (root->step == STEP_CONSTANT && PyFunction_Check(root->seen)) {
        return record_function_root(root);
    }
    if (root->step != STEP_CONSTANT || !PyType_Check(root->seen)) {
        return 0;
    }
    PyTypeObject *type = (PyTypeObject *)root->seen;
    for (int i = 0; i < root->check_count; i++) {
        int kind = root->checks[i].kind;
        if (kind != KIND_TYPE_IS && kind != KIND_CLASS_UNCHANGED) {
            return 0;
        }
        if (kind == KIND_TYPE_IS && root->checks[i].is_weak
            && record_alive(root->checks[i].expected) < 0) {
            return -1;
        }
    }
    if (type->tp_version_tag == 0) {
        return 0;
    }
    int level = root->is_weak;
    if ((root->is_weak && record_alive(root->argument) < 0)
        || record_now(&type->tp_version_tag, level) < 0
        || record_class((PyObject *)type, level) < 0) {
        return -1;
    }
    return 1;
}

static int
record_roots(Guards *self, const Call *call)
{
    for (int i = 0; i < self->root_count; i++) {
        Node *root = &self->roots[i];
        root->seen = read_root(root, call);
        if (is_leaf(root)) {
            root->is_in_words = record_constant_root(root);
            if (root->is_in_words < 0) {
                return -1;
            }
            continue;
        }
        if (root->is_weak && record_alive(root->argument) < 0) {
            return -1;
        }
        int is_known = root->is_in_words = root->step == STEP_CONSTANT;
        int status = is_fresh(root, call)
                         ? record_fresh(self, root)
                         : record_object(self, root, root->seen, root->is_weak, is_known);
        if (status < 0) {
            return -1;
        }
    }
    return arrange_words(&self->snapshot);
}

int
record_snapshot(Guards *self, const Call *call)
{
    Snapshot *snapshot = &self->snapshot;
    found.count = found.level_count = 0;
    snapshot->word_count = snapshot->slow_count = snapshot->tensor_count = 0;
    snapshot->level_count = 0;
    snapshot->first_fresh = call->first_fresh;
    snapshot->epoch = *tensor_api->metadata_epoch;
    snapshot->is_valid = record_roots(self, call) == 0;
    return snapshot->is_valid ? 0 : -1;
}

void
free_snapshot(Snapshot *snapshot)
{
    PyMem_Free(snapshot->words);
    PyMem_Free(snapshot->origins);
    PyMem_Free(snapshot->level_ends);
    PyMem_Free(snapshot->slow);
    PyMem_Free(snapshot->tensors);
}

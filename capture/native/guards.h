/* The guards of one region: a tree of checks with shared prefixes, and in front of it a flat
 * snapshot.
 *
 * Contract. A guard never passes wrongly and never runs user code: attributes are read from
 * instance dicts, inline values and slots, class attributes through the MRO, keys by stored hash.
 * (One exception, shared with the user's own lookup: a user-defined key whose hash equals that of
 * a guarded key has its __eq__ called by the dict.)
 *
 * Built by guard_build.c from what dynajit.capture.guards.tree hands over; read by guard_read.c,
 * checked by guard_check.c; snapshots are taken by guard_record.c and checked by guard_snapshot.c.
 * Used by _capture.c.
 */
#ifndef DYNAJIT_CAPTURE_GUARDS_H
#define DYNAJIT_CAPTURE_GUARDS_H

#include "quiet_lookup.h"
#include "versions.h"

#define PY_ARRAY_UNIQUE_SYMBOL dynajit_capture_arrays
#ifndef DYNAJIT_IMPORTS_ARRAYS
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "tensor.h"

#pragma GCC visibility push(hidden)

/* Filled when the module is loaded. */
extern TensorApi *tensor_api;          /* of dynajit.eager._tensor */
extern PyObject *name_getattribute;    /* "__getattribute__" */
extern PyObject *name_grad;            /* "grad" */
extern PyObject *name_hooks;           /* "hooks" */
extern PyObject *name_requires_grad;   /* "requires_grad" */
extern PyObject *name_bases;           /* "__bases__" */
extern PyObject *registrations;        /* abc.get_cache_token */
extern PyObject *subclasses;           /* type.__subclasses__ */
extern int (*const *classes_not_asked)(void); /* of dynajit.ops.native._library_call */
extern PyObject *deque_type;           /* collections.deque */
extern PyObject *warns_only;           /* dynajit.core.arrays.numpy_errors.warns_only */
extern PyObject *numpy_errors;         /* the context variable of numpy.errstate; NULL: unknown */
extern PyObject *current_device;       /* dynajit.core.arrays.gpu.runtime.current_device */
extern vectorcallfunc plain_call;      /* how CPython calls a Python function */

static inline int
is_tensor(PyObject *object)
{
    return PyObject_TypeCheck(object, tensor_api->base_type);
}

/* ------------------------------------------------------------------------------ The tree ---- */

/* Same numbers as capture.places.sources.Step. */
enum Step {
    STEP_SLOT, STEP_FUNCTION, STEP_CONSTANT, STEP_STATE, STEP_GLOBAL, STEP_BUILTIN, STEP_CLOSURE,
    STEP_DEFAULT, STEP_KEYWORD_DEFAULT, STEP_ATTRIBUTE, STEP_CLASS_ATTRIBUTE, STEP_ITEM, STEP_KEY,
    STEP_TYPE, STEP_METHOD_FUNCTION, STEP_METHOD_SELF, STEP_CELL, STEP_PART, STEP_DICT,
    STEP_CLOSURE_CELL, STEP_ITERATED, STEP_NTH_KEY, STEP_MEMBER, STEP_DEQUE_ITEM, STEP_CONTENTS,
    STEP_TENSOR_OVER,
    STEP_COUNT
};

extern const char *const step_names[STEP_COUNT];

/* Same order as capture.guards.kinds.Kind. */
#define GUARD_KINDS(X) \
    X(TYPE_IS) X(IDENTITY) X(EQUALS) X(TENSOR) X(LENGTH) X(TRUE_VALUE) X(DICT_KEYS) \
    X(HAS_NO_ATTRIBUTE) X(HAS_NO_KEY) X(PREDICATE) X(FUNCTION) X(GRAD_MODE) X(NOT_ALIASED) \
    X(ALIASED) X(NO_SHARED_STORAGE) X(INSTANCE_LACKS) X(SEPARATE_MEMORY) X(HANDLING) \
    X(RELATION) X(STORAGE_EQUALS) X(POSITION) X(CLASS_UNCHANGED) X(REGISTRATIONS) \
    X(ENDS_QUIETLY) X(EXISTS) X(AUTOCAST) X(INFERENCE) X(SUBCLASSES) X(DEVICE) \
    X(WRITES_CHECKED) X(CONDITION) X(MAX_LENGTH) X(CLASSES_ASKED) \
    X(INFERENCE_TENSOR) X(AT_MOST)

#define GUARD_KIND_NUMBER(name) KIND_##name,
enum Kind { GUARD_KINDS(GUARD_KIND_NUMBER) KIND_COUNT };

extern const char *const kind_names[KIND_COUNT];

enum Layout { LAYOUT_ANY, LAYOUT_STRIDES, LAYOUT_CONTIGUOUS, LAYOUT_ORDERED };

typedef struct {
    npy_intp low, high; /* inclusive */
    npy_intp stride;    /* in bytes; ANY_NUMBER: does not matter; or of an order: a dim */
} DimSpec;

/* The expected metadata of a tensor. */
typedef struct {
    PyTypeObject *type;      /* owned */
    PyArray_Descr *dtype;    /* owned */
    char requires_grad;      /* 0, 1 or 2: does not matter */
    char layout;             /* enum Layout */
    int device;              /* which GPU; -1: the CPU */
    int rank;
    DimSpec dims[];
} TensorSpec;

#define ANY_NUMBER NPY_MIN_INTP

typedef struct {
    PyTypeObject *type; /* borrowed: int, float, bool or str */
    int count;
    int negated;
    struct {
        int operation;      /* Py_EQ ... */
        PyObject *constant; /* owned */
    } comparisons[];
} PredicateSpec;

/* The memory that a tensor's elements span. */
typedef struct {
    const char *start, *stop;
    int flags;          /* WRITTEN ... */
} Range;

/* The tensors of a region that writes into some of them. */
typedef struct {
    int count;
    Range *ranges;      /* room for one per tensor, in the order of `order` */
    int *order;         /* positions by address in the last check: nearly sorted in the next one */
    struct {
        int number;     /* of the node */
        int flags;
    } members[];
} MemorySpec;

/* Same numbers as capture.guards.facts.MemoryUse. */
#define MEMORY_WRITTEN 1   /* its elements change */
#define MEMORY_RECORDED 2  /* they change while gradients are recorded */
#define MEMORY_ALONE 4     /* it shares no storage with the others */
#define MEMORY_LEAF 8      /* no operation made it */
#define MEMORY_RESULT 16   /* an operation made it */

/* Same numbers as capture.guards.relations.Operation. */
enum Operation {
    OPERATION_CONSTANT, OPERATION_TERM, OPERATION_ADD, OPERATION_MULTIPLY, OPERATION_FLOORDIV,
    OPERATION_MOD, OPERATION_MIN, OPERATION_MAX, OPERATION_COUNT
};

#define RELATION_STACK 32

/* `left comparison right` between integers, as a postfix program that leaves both on a stack. */
typedef struct {
    int comparison; /* Py_EQ ... */
    int term_count;
    int length;
    struct Term {
        int node; /* number of the node whose value is the tensor or the Python int */
        int dim;  /* dimension of the tensor, or -1 for an int */
    } *terms;
    struct Instruction {
        int operation;
        int64_t operand; /* the constant, or the index of the term */
    } program[];
} RelationSpec;

/* What the classes of an MRO held that decides what they do; see guard_classes.c. */
typedef struct ClassSpec ClassSpec;

/* What arithmetic on numbers gives; see guard_conditions.c. */
typedef struct ConditionSpec ConditionSpec;

typedef struct {
    int kind;
    int guard;          /* number of the guard */
    PyObject *expected; /* owned; where is_weak: the weak reference to it */
    Py_hash_t hash;     /* of a key or name */
    int number;         /* LENGTH, AT_MOST, TRUE_VALUE, modes, DEVICE; node number of the other operand */
    int is_weak;
    char *weak_items;   /* DICT_KEYS: which items of `expected` are weak references */
    TensorSpec *tensor;
    PredicateSpec *predicate;
    MemorySpec *memory;
    RelationSpec *relation;
    ClassSpec *classes;
    ConditionSpec *condition;
} Check;

typedef struct Node {
    int step;
    int number;
    PyObject *argument; /* owned; for a weak key or constant: the weak reference */
    int is_weak;
    Py_ssize_t index;
    Py_hash_t hash;
    int check_count;
    int child_count;
    Check *checks;
    struct Node *children;
    /* What the class says about attribute `argument`; valid while type and tag are these. */
    PyTypeObject *cached_type; /* borrowed, only compared */
    unsigned int cached_tag;
    PyObject *cached_descriptor; /* borrowed from the class */
    Py_ssize_t cached_slot;      /* index into inline values, or -1 */
    int is_in_words; /* a root that the words of the snapshot cover */
    PyObject *made; /* owned: what a step made that nobody else holds */
    PyObject *seen; /* value when the snapshot was taken; only compared, or known to live */
} Node;

/* One call of a function that is to be checked. */
typedef struct {
    PyObject *const *slots; /* arguments in the order of co_varnames */
    Py_ssize_t slot_count;
    Py_ssize_t first_fresh; /* from here on: made anew for every call, for *args and **kwargs */
    PyObject *function;
    Py_ssize_t held; /* references to an argument that only this call has, at most */
} Call;

/* A fact that is checked in every call: the eight bytes at an address. */
typedef uint64_t __attribute__((may_alias)) MemoryWord;

typedef struct {
    const MemoryWord *address;
    uint64_t expected;
} Word;

/* What may be done about a word that differs. */
typedef struct {
    Node *node;     /* it is the version of a dict that is read below this node; else NULL */
    PyObject *base; /* what the node stands for; borrowed: alive where the word is read */
    PyObject *dict; /* whose version; borrowed, as `base` */
} Origin;

/* A fact that takes more than a comparison. */
enum SlowKind {
    SLOW_LEAF,  /* the checks of `node` hold for the object at *address */
    SLOW_STEP,  /* the step of `node` from `base` exists, and all checks below hold */
    SLOW_CHECKS /* the checks of `node` itself hold for `base` */
};

typedef struct {
    int kind;
    Node *node;
    PyObject *base; /* borrowed: alive if all words hold */
    PyObject **address;
} SlowFact;

/* A tensor that the facts cover while the metadata epoch stays. */
typedef struct {
    Node *node;
    PyObject *tensor; /* borrowed, as above */
} CoveredTensor;

/* Facts that together imply that all guards but relations hold; see guard_record.c. */
typedef struct {
    Word *words;      /* in levels: addresses of one are safe to read if all lower ones hold */
    Origin *origins;  /* one per word */
    int word_count;
    int word_capacity;
    int *level_ends;  /* per level: the index after its last word */
    int level_count;
    SlowFact *slow;
    int slow_count;
    int slow_capacity;
    CoveredTensor *tensors;
    int tensor_count;
    int tensor_capacity;
    int is_valid;
    Py_ssize_t first_fresh; /* of the call it was taken in: what is fresh there is not covered */
    uint64_t epoch;   /* tensor metadata epoch when it was taken */
} Snapshot;

/* How a class differs, for the report; all borrowed. name: NULL in none. */
typedef struct {
    PyObject *cls;
    PyObject *name;
    const char *change; /* NULL: none was found */
} ClassChange;

typedef struct {
    PyObject_HEAD
    Node *roots;
    int root_count;
    int node_count;
    int guard_count;
    PyObject **values; /* per node: its value in the last walk, for relations; borrowed */
    int has_relations; /* or conditions */
    ConditionSpec **conditions; /* of the checks, in the order of their guards */
    int condition_count;
    /* the last failure, when asked for */
    int failed_guard;
    PyObject *failed_value; /* borrowed; NULL: the place does not exist */
    const RelationSpec *failed_relation;
    const ConditionSpec *failed_condition;
    ClassChange failed_class;
    PyObject *stale;        /* borrowed: a view that must be refreshed before it can be read */
    Snapshot snapshot;
    int is_deep;            /* some root has children: a snapshot pays */
    int values_changed;     /* `values` is not that of the snapshot any more */
    uint64_t walks;         /* of the whole tree so far */
    unsigned int misses;    /* consecutive snapshots that did not hold */
    unsigned int pause;     /* calls until the next snapshot is tried */
    int is_busy;            /* a check is running */
    int reads_arrays;       /* some step is TENSOR_OVER */
    Py_ssize_t held;        /* of the call being checked */
} Guards;

extern PyTypeObject GuardsType;

static inline int
is_leaf(const Node *node)
{
    return node->child_count == 0;
}

/* NULL when dead; borrowed. */
static inline PyObject *
weak_target(PyObject *reference)
{
    PyObject *target = ((PyWeakReference *)reference)->wr_object;
    return target == Py_None ? NULL : target; /* nobody can refer weakly to None */
}

/* A call of the function runs its code: no extension module took its calls over with
 * PyFunction_SetVectorcall. */
static inline int
is_called_plainly(PyObject *function)
{
    return ((PyFunctionObject *)function)->vectorcall == plain_call;
}

/* Borrowed; NULL: a constant that has died. */
static inline PyObject *
read_root(const Node *node, const Call *call)
{
    switch (node->step) {
    case STEP_SLOT:
        return call->slots[node->index];
    case STEP_FUNCTION:
        return call->function;
    case STEP_CONSTANT:
        return node->is_weak ? weak_target(node->argument) : node->argument;
    default:
        return Py_None; /* STEP_STATE: its checks do not look at a value */
    }
}

static inline int
is_fresh(const Node *root, const Call *call)
{
    return root->step == STEP_SLOT && root->index >= call->first_fresh;
}

/* Do all guards hold? No for a second check while one is running, which is possible only where a
 * dict key calls user code or a stale view is refreshed: a miss is slow, but never wrong. */
int guards_check(Guards *self, const Call *call);

/* A guard keeps nothing of the user's alive: it refers weakly to all that can die. What has no weak
 * references, and code objects, are held. */
int is_held_weakly(PyObject *object);

/* New weak reference to such an object; one to a class, or to a function that a guard starts from,
 * counts its death. */
PyObject *refer_weakly(PyObject *object, int is_constant);

/* Is the death of what it refers to counted? */
int counts_death(PyObject *reference);

/* Where the number of deaths counted so far is kept. */
const uint64_t *death_count(void);

/* ------------------------------------------------------------- Reading: no user code runs ---- */

/* Where an instance keeps its attributes. */
typedef struct {
    PyDictValues *values; /* inline values, or NULL */
    PyObject *dict;       /* borrowed; NULL if there is none (yet) */
    PyObject **address;   /* where the dict pointer is stored, or NULL */
} Storage;

Storage storage_of(PyObject *object);

/* Exact type and value; NaN equals NaN, 0.0 and -0.0 differ. */
int constant_equal(PyObject *a, PyObject *b);
Py_ssize_t iterator_position(PyObject *iterator);
int storage_equal(PyObject *value, PyObject *expected);

/* Borrowed value of a key, or NULL without an exception, also where user code would be asked. */
PyObject *dict_get(PyObject *dict, PyObject *key, Py_hash_t hash);

/* Index of `name` in the shared keys of the class, or -1. */
Py_ssize_t shared_key_index(PyTypeObject *type, PyObject *name);

/* Borrowed value of an instance attribute, or NULL. `slot` caches the inline-value index. */
PyObject *instance_get(PyObject *object, PyObject *name, Py_hash_t hash, Py_ssize_t *slot);

/* True if attribute access on instances of `type` first follows the ordinary rules. */
int reads_ordinarily(PyTypeObject *type);

/* What the class stores under the node's name (borrowed or NULL); -1: access is not ordinary. */
int class_lookup(Node *node, PyTypeObject *type, PyObject **descriptor);

PyObject *read_attribute(Node *node, PyObject *object);
PyObject *read_closure_cell(PyObject *object, Py_ssize_t index);
PyObject *read_item(PyObject *object, Py_ssize_t index);

/* Number of a field of functions, classes and descriptors by the name that Python shows, or -1. */
int part_number(PyObject *name);

/* Where an object keeps that field; NULL: it has none. An empty place stands for None. */
PyObject **part_place(PyObject *object, Py_ssize_t number);

/* One step from `base`; borrowed, or NULL where the place does not exist. */
PyObject *read_step(Node *node, PyObject *base);

/* ------------------------------------------------------------------------------ Checking ---- */

int check_value(Guards *self, Check *check, PyObject *value);

/* For CLASS_UNCHANGED: of a class, as it is now; NULL with an exception. */
ClassSpec *build_class_spec(PyObject *expected);
void free_class_spec(ClassSpec *spec);
int visit_class_spec(ClassSpec *spec, visitproc visit, void *arg);
int is_class_unchanged(Guards *self, ClassSpec *spec, PyObject *cls);

/* The version tag of a class, given one where it has none; 0: it cannot have one. */
unsigned int class_tag(PyTypeObject *type);

/* Can nobody tell that an object ends? is_fresh: a tuple or dict made for one call. */
int ends_quietly(PyObject *object, int is_fresh);

/* All checks at and below a node. */
int walk(Guards *self, Node *node, PyObject *value);

/* All relations at and below a node, after the walk. */
int walk_relations(Guards *self, Node *node);

/* The places of the terms of a relation or condition, from a tuple of (node, dim); owned. */
struct Term *build_terms(Guards *self, PyObject *terms, int *count);

/* See guard_conditions.c. */
ConditionSpec *build_condition_spec(Guards *self, PyObject *expected, int guard);
void free_condition_spec(ConditionSpec *spec);
int visit_condition_spec(ConditionSpec *spec, visitproc visit, void *arg);
int order_conditions(Guards *self, Node *nodes, int count);
PyObject *condition_numbers(const Guards *self, const ConditionSpec *spec);

/* All conditions, after the relations. */
int conditions_hold(Guards *self);

/* The whole tree, after refreshing views that a write through another view made stale. */
void release_tensors(Node *nodes, int count);
int check_tree(Guards *self, const Call *call);

/* The number of one term of a relation; 0: it is missing or no int64_t. */
int read_term(const Guards *self, struct Term term, int64_t *number);

/* ------------------------------------------------------------------------------ Snapshots ---- */

/* After a successful walk of the tree. -1: something in it cannot be described by facts. */
int record_snapshot(Guards *self, const Call *call);

void free_snapshot(Snapshot *snapshot);

#pragma GCC visibility pop

#endif

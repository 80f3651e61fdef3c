/* Checking with a snapshot: an unchanged module costs one comparison per fact. See guard_record.c
 * for what the facts are, and why they may be read in this order.
 *
 * A changed snapshot is not a changed guard: what a dict holds below is looked at again, or the
 * tree is walked and the snapshot taken anew.
 */
#include "dict_versions.h"
#include "guards.h"

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
        if (kind != KIND_EQUALS && kind != KIND_PREDICATE && kind != KIND_EXISTS) {
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

/* One level: its addresses do not depend on each other, so that they are all read before anything
 * is decided. */
static int
words_hold(const Word *word, const Word *end)
{
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (; end - word >= 4; word += 4) {
        a |= *word[0].address ^ word[0].expected;
        b |= *word[1].address ^ word[1].expected;
        c |= *word[2].address ^ word[2].expected;
        d |= *word[3].address ^ word[3].expected;
    }
    for (; word < end; word++) {
        a |= *word->address ^ word->expected;
    }
    return (a | b | c | d) == 0;
}

/* The same where some word differs: versions of dicts may, if what is used of them does not. */
static int
words_hold_again(Guards *self, int start, int end)
{
    for (int i = start; i < end; i++) {
        Word *word = &self->snapshot.words[i];
        const Origin *origin = &self->snapshot.origins[i];
        if (*word->address == word->expected) {
            continue;
        }
        if (origin->node == NULL || keep_version(origin->dict) < 0
            || !look_again(self, origin->node, origin->base)) {
            return 0;
        }
        word->expected = *word->address;
    }
    return 1;
}

static int
slow_fact_holds(Guards *self, const SlowFact *fact)
{
    PyObject *value;
    switch (fact->kind) {
    case SLOW_LEAF:
        value = *fact->address;
        return value != NULL && walk(self, fact->node, value);
    case SLOW_STEP:
        value = read_step(fact->node, fact->base);
        return value != NULL && walk(self, fact->node, value);
    default:
        return run_own_checks(self, fact->node, fact->base);
    }
}

/* Some tensor's metadata was replaced since: was it one of ours? */
static int
tensors_hold(Guards *self)
{
    const Snapshot *snapshot = &self->snapshot;
    for (int i = 0; i < snapshot->tensor_count; i++) {
        CoveredTensor *covered = &snapshot->tensors[i];
        if (((TensorObject *)covered->tensor)->replay != NULL
            || !walk(self, covered->node, covered->tensor)) {
            return 0;
        }
    }
    return 1;
}

static int
facts_hold(Guards *self)
{
    Snapshot *snapshot = &self->snapshot;
    int start = 0;
    for (int level = 0; level < snapshot->level_count; level++) {
        int end = snapshot->level_ends[level];
        if (!words_hold(snapshot->words + start, snapshot->words + end)
            && !words_hold_again(self, start, end)) {
            return 0;
        }
        start = end;
    }
    for (int i = 0; i < snapshot->slow_count; i++) {
        if (!slow_fact_holds(self, &snapshot->slow[i])) {
            return 0;
        }
    }
    if (snapshot->epoch != *tensor_api->metadata_epoch) {
        if (!tensors_hold(self)) {
            return 0;
        }
        snapshot->epoch = *tensor_api->metadata_epoch;
    }
    return 1;
}

enum Outcome { OUTCOME_HOLDS, OUTCOME_FAILS, OUTCOME_UNKNOWN };

static enum Outcome
check_leaf(Guards *self, Node *node, PyObject *value)
{
    if (walk(self, node, value)) {
        return OUTCOME_HOLDS;
    }
    return self->stale == NULL ? OUTCOME_FAILS : OUTCOME_UNKNOWN;
}

/* A tuple or dict made for this call: what it holds is what the facts are about. */
static enum Outcome
check_fresh(Guards *self, Node *root, PyObject *value)
{
    self->values[root->number] = value;
    if (!run_own_checks(self, root, value)) {
        return OUTCOME_FAILS;
    }
    for (int i = 0; i < root->child_count; i++) {
        Node *child = &root->children[i];
        PyObject *held = read_step(child, value);
        if (held == NULL) {
            return OUTCOME_FAILS;
        }
        if (is_leaf(child)) {
            enum Outcome outcome = check_leaf(self, child, held);
            if (outcome != OUTCOME_HOLDS) {
                return outcome;
            }
        }
        else if (held != child->seen) {
            return OUTCOME_UNKNOWN;
        }
    }
    return OUTCOME_HOLDS;
}

static enum Outcome
check_roots(Guards *self, const Call *call)
{
    for (int i = 0; i < self->root_count; i++) {
        Node *root = &self->roots[i];
        if (root->is_in_words) {
            continue;
        }
        if (root->step == STEP_SLOT && root->index >= call->slot_count) {
            return OUTCOME_FAILS;
        }
        PyObject *value = read_root(root, call);
        if (value == NULL) {
            return OUTCOME_FAILS;
        }
        enum Outcome outcome = OUTCOME_HOLDS;
        if (is_leaf(root)) {
            outcome = check_leaf(self, root, value);
        }
        else if (is_fresh(root, call)) {
            outcome = check_fresh(self, root, value);
        }
        else if (value != root->seen) {
            outcome = OUTCOME_UNKNOWN;
        }
        if (outcome != OUTCOME_HOLDS) {
            return outcome;
        }
    }
    return OUTCOME_HOLDS;
}

static enum Outcome
check_snapshot(Guards *self, const Call *call)
{
    enum Outcome outcome = check_roots(self, call);
    if (outcome != OUTCOME_HOLDS) {
        return outcome;
    }
    if (!facts_hold(self)) {
        return OUTCOME_UNKNOWN;
    }
    if (self->has_relations) {
        for (int i = 0; i < self->root_count; i++) {
            if (!walk_relations(self, &self->roots[i])) {
                return OUTCOME_FAILS;
            }
        }
    }
    return conditions_hold(self) ? OUTCOME_HOLDS : OUTCOME_FAILS;
}

/* A snapshot that keeps failing is not worth taking: wait longer and longer. One that cannot be
 * taken is rarely worth trying again. */
#define SNAPSHOT_PATIENCE 4
#define SNAPSHOT_LONGEST_PAUSE 256
#define SNAPSHOT_IMPOSSIBLE_PAUSE 1000

static int
check_once(Guards *self, const Call *call)
{
    if (!self->is_deep) {
        return check_tree(self, call);
    }
    int usable = self->snapshot.is_valid && self->snapshot.first_fresh == call->first_fresh
                 && !(self->has_relations && self->values_changed);
    if (usable && self->pause == 0) {
        self->stale = NULL;
        enum Outcome outcome = check_snapshot(self, call);
        if (outcome == OUTCOME_HOLDS) {
            self->misses = 0;
            return 1;
        }
        if (outcome == OUTCOME_FAILS) {
            return 0;
        }
    }
    self->values_changed = 1;
    if (!check_tree(self, call)) {
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
    if (record_snapshot(self, call) < 0) {
        self->pause = SNAPSHOT_IMPOSSIBLE_PAUSE;
        return 1;
    }
    self->values_changed = 0;
    return 1;
}

/* NumPy does at most warn of floating point errors, in this thread and context. What it was asked
 * last is kept: it is one object until somebody asks for something else. */
static int
numpy_only_warns(void)
{
    static PyObject *seen; /* owned: its address is not used again */
    PyObject *now = NULL;
    if (numpy_errors != NULL && PyContextVar_Get(numpy_errors, NULL, &now) < 0) {
        PyErr_Clear();
    }
    if (now != NULL && now == seen) {
        Py_DECREF(now);
        return 1;
    }
    PyObject *answer = PyObject_CallNoArgs(warns_only);
    int holds = answer == Py_True;
    if (answer == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(answer);
    if (holds && now != NULL) {
        Py_XSETREF(seen, now);
    }
    else {
        Py_XDECREF(now);
    }
    return holds;
}

/* The check ends: nothing of the arguments is kept. */
void
release_tensors(Node *nodes, int count)
{
    for (int i = 0; i < count; i++) {
        if (nodes[i].step == STEP_TENSOR_OVER) {
            Py_CLEAR(nodes[i].made);
        }
        release_tensors(nodes[i].children, nodes[i].child_count);
    }
}

int
guards_check(Guards *self, const Call *call)
{
    if (self->is_busy || (self->reads_arrays && !numpy_only_warns())) {
        return 0;
    }
    self->is_busy = 1;
    self->held = call->held;
    int holds = check_once(self, call);
    if (self->reads_arrays) {
        release_tensors(self->roots, self->root_count);
    }
    self->is_busy = 0;
    return holds;
}

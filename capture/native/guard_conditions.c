/* Conditions on Python numbers: postfix programs of calls of C functions.
 *
 * Contract. Terms are exact ints, floats and bools, and sizes of tensors; functions are written in
 * C and run no code of the user's on such (`capture.values.numbers`). An error makes the condition
 * fail: the function is compiled anew for such a call, and raises there. The collector is off while
 * functions run: a finalizer could end what the walk found.
 */
#include "guards.h"

enum StepKind { CONDITION_TERM, CONDITION_CONSTANT, CONDITION_CALL };

struct ConditionSpec {
    int guard; /* number of the guard: conditions are asked in the order of the program's lines */
    int is_class;
    PyObject *outcome;  /* owned */
    PyObject *constants; /* owned: a tuple, per step the constant, the function, or None */
    int term_count;
    struct Term *terms;
    int length;
    struct ConditionStep {
        int kind;
        int count; /* index of the term, number of operands */
        PyObject *object; /* borrowed from `constants` */
    } steps[];
};

void
free_condition_spec(ConditionSpec *spec)
{
    if (spec != NULL) {
        Py_XDECREF(spec->outcome);
        Py_XDECREF(spec->constants);
        PyMem_Free(spec->terms);
        PyMem_Free(spec);
    }
}

/* True if the program stays within the stack and leaves one object. */
static int
is_program_valid(const ConditionSpec *spec)
{
    int depth = 0;
    for (int i = 0; i < spec->length; i++) {
        struct ConditionStep step = spec->steps[i];
        if (step.kind == CONDITION_TERM && (step.count < 0 || step.count >= spec->term_count)) {
            return 0;
        }
        if (step.kind == CONDITION_CALL && (step.count < 1 || step.count > depth)) {
            return 0;
        }
        depth += step.kind == CONDITION_CALL ? 1 - step.count : 1;
        if (step.kind < 0 || step.kind > CONDITION_CALL || depth > RELATION_STACK) {
            return 0;
        }
    }
    return depth == 1;
}

/* (((node, dim), ...), ((kind, count, object), ...), outcome, is_class) */
ConditionSpec *
build_condition_spec(Guards *self, PyObject *expected, int guard)
{
    PyObject *terms, *program, *outcome;
    int is_class;
    if (!PyArg_ParseTuple(expected, "O!O!Op", &PyTuple_Type, &terms, &PyTuple_Type, &program,
                          &outcome, &is_class)) {
        return NULL;
    }
    Py_ssize_t length = PyTuple_GET_SIZE(program);
    ConditionSpec *spec =
        PyMem_Calloc(1, sizeof(ConditionSpec) + (size_t)length * sizeof(struct ConditionStep));
    if (spec == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    spec->guard = guard;
    spec->is_class = is_class;
    spec->outcome = Py_NewRef(outcome);
    spec->terms = build_terms(self, terms, &spec->term_count);
    spec->constants = PyTuple_New(length);
    int valid = spec->terms != NULL && spec->constants != NULL;
    for (Py_ssize_t i = 0; valid && i < length; i++) {
        struct ConditionStep *step = &spec->steps[i];
        valid = PyArg_ParseTuple(PyTuple_GET_ITEM(program, i), "iiO", &step->kind, &step->count,
                                 &step->object);
        if (valid) {
            PyTuple_SET_ITEM(spec->constants, i, Py_NewRef(step->object));
            spec->length++;
        }
    }
    if (!valid || !is_program_valid(spec)) {
        free_condition_spec(spec);
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "CONDITION guard: not a program over its terms");
        }
        return NULL;
    }
    return spec;
}

int
visit_condition_spec(ConditionSpec *spec, visitproc visit, void *arg)
{
    Py_VISIT(spec->constants);
    Py_VISIT(spec->outcome);
    return 0;
}

/* New reference; NULL without an error: there is no number. */
static PyObject *
term_object(const Guards *self, struct Term term)
{
    PyObject *value = self->values[term.node];
    int64_t number;
    if (term.dim >= 0) {
        return read_term(self, term, &number) ? PyLong_FromLongLong(number) : NULL;
    }
    int is_number = value != NULL
                    && (PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value));
    return is_number ? Py_NewRef(value) : NULL;
}

/* What the program gives: a new reference, or NULL with or without an error. */
static PyObject *
result_of(const Guards *self, const ConditionSpec *spec)
{
    PyObject *stack[RELATION_STACK];
    int depth = 0;
    for (int i = 0; i < spec->length; i++) {
        struct ConditionStep step = spec->steps[i];
        PyObject *made;
        if (step.kind == CONDITION_CONSTANT) {
            made = Py_NewRef(step.object);
        }
        else if (step.kind == CONDITION_TERM) {
            made = term_object(self, spec->terms[step.count]);
        }
        else {
            PyObject **operands = stack + depth - step.count;
            made = PyObject_Vectorcall(step.object, operands, (size_t)step.count, NULL);
            while (step.count--) {
                Py_DECREF(stack[--depth]);
            }
        }
        if (made == NULL) {
            break;
        }
        stack[depth++] = made;
        if (i == spec->length - 1) {
            return made;
        }
    }
    while (depth > 0) {
        Py_DECREF(stack[--depth]);
    }
    return NULL;
}

static int
condition_holds(const Guards *self, const ConditionSpec *spec)
{
    PyObject *result = result_of(self, spec);
    if (result == NULL) {
        PyErr_Clear();
        return 0;
    }
    int holds = spec->is_class ? (PyObject *)Py_TYPE(result) == spec->outcome
                               : constant_equal(result, spec->outcome);
    Py_DECREF(result);
    return holds;
}

int
conditions_hold(Guards *self)
{
    if (self->condition_count == 0) {
        return 1;
    }
    int was_collecting = PyGC_Disable();
    int holds = 1;
    for (int i = 0; holds && i < self->condition_count; i++) {
        holds = condition_holds(self, self->conditions[i]);
        if (!holds) {
            self->failed_guard = self->conditions[i]->guard;
            self->failed_condition = self->conditions[i];
        }
    }
    if (was_collecting) {
        PyGC_Enable();
    }
    return holds;
}

/* The conditions of a tree that has been built, in the order of their guards. */
int
order_conditions(Guards *self, Node *nodes, int count)
{
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < nodes[i].check_count; j++) {
            ConditionSpec *spec = nodes[i].checks[j].condition;
            if (spec == NULL) {
                continue;
            }
            size_t size = ((size_t)self->condition_count + 1) * sizeof(ConditionSpec *);
            ConditionSpec **grown = PyMem_Realloc(self->conditions, size);
            if (grown == NULL) {
                PyErr_NoMemory();
                return -1;
            }
            self->conditions = grown;
            int place = self->condition_count++;
            for (; place > 0 && grown[place - 1]->guard > spec->guard; place--) {
                grown[place] = grown[place - 1];
            }
            grown[place] = spec;
        }
        if (order_conditions(self, nodes[i].children, nodes[i].child_count) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The numbers of the terms; None for one that is missing. */
PyObject *
condition_numbers(const Guards *self, const ConditionSpec *spec)
{
    PyObject *numbers = PyTuple_New(spec->term_count);
    for (int i = 0; numbers != NULL && i < spec->term_count; i++) {
        PyObject *item = term_object(self, spec->terms[i]);
        if (item == NULL && PyErr_Occurred()) {
            Py_CLEAR(numbers);
            break;
        }
        PyTuple_SET_ITEM(numbers, i, item == NULL ? Py_NewRef(Py_None) : item);
    }
    return numbers;
}

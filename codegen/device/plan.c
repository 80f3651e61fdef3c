/* Plans from Python's description, and their steps given to a stream. See plan.h. */
#include "plan.h"

#include <structmember.h>
#include <string.h>

/* ---- running ---- */

static uint64_t value_of(const uint64_t *words, Word word) {
    return words[word.base] + (word.addend < 0 ? 0 : words[word.addend]);
}

static size_t aligned(size_t bytes) { return (bytes + 15) & ~(size_t)15; }

size_t plan_scratch(const PlanObject *plan) {
    return aligned((size_t)plan->slot_count * 8) + aligned((size_t)plan->product_count * 8) +
           aligned((size_t)plan->most_words * 8) + aligned((size_t)plan->most_parameters * 8);
}

void plan_open(Run *run, PlanObject *plan, void *scratch) {
    char *memory = scratch;
    memset(run, 0, sizeof *run);
    run->plan = plan;
    run->words = (uint64_t *)memory;
    memory += aligned((size_t)plan->slot_count * 8);
    run->prepared = (Prepared **)memory;
    memory += aligned((size_t)plan->product_count * 8);
    run->values = (uint64_t *)memory;
    memory += aligned((size_t)plan->most_words * 8);
    run->parameters = (void **)memory;
    memcpy(run->words, plan->initial, (size_t)plan->slot_count * 8);
}

/* Of a size that is 0 nothing is computed, but what does not depend on it may be in front. */
static int64_t floor_divide(int64_t a, int64_t b) {
    if (b == 0) return 0;
    int64_t quotient = a / b;
    return quotient - ((a % b != 0) & ((a % b < 0) != (b < 0)));
}

static int64_t calculated(int operation, int64_t a, int64_t b) {
    switch (operation) {
    case ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case MULTIPLY: return (int64_t)((uint64_t)a * (uint64_t)b);
    case FLOOR_DIVIDE: return floor_divide(a, b);
    case MODULO: return b == 0 ? 0 : a - floor_divide(a, b) * b;
    case MINIMUM: return a < b ? a : b;
    default: return a > b ? a : b;
    }
}

void plan_compute(const PlanObject *plan, uint64_t *words) {
    for (Py_ssize_t i = 0; i < plan->arithmetic_count; i++) {
        const Arithmetic *a = &plan->arithmetic[i];
        words[a->target] = (uint64_t)calculated(a->operation, (int64_t)words[a->left],
                                                (int64_t)words[a->right]);
    }
}

int plan_prepare(Run *run, size_t *bytes) {
    *bytes = 0;
    for (Py_ssize_t i = 0; i < run->plan->product_count; i++) {
        Prepared *prepared = product_prepare(run->plan, &run->plan->products[i], run->words);
        if (!prepared) return -1;
        run->prepared[i] = prepared;
        if (prepared->workspace > *bytes) *bytes = prepared->workspace;
    }
    return 0;
}

void plan_close(Run *run) {
    for (Py_ssize_t i = 0; i < run->plan->product_count; i++)
        if (run->prepared[i]) run->prepared[i]->users--;
}

void step_parameters(const Run *run, const Step *step) {
    const Word *references = run->plan->references + step->first_word;
    const Parameter *parameters = run->plan->parameters + step->first_parameter;
    for (int i = 0; i < step->word_count; i++)
        run->values[i] = value_of(run->words, references[i]);
    for (int i = 0; i < step->parameter_count; i++)
        run->parameters[i] = &run->values[parameters[i].first];
}

int step_is_launched(const Run *run, const Step *step) {
    return run->words[step->grid[0]] && run->words[step->grid[1]] && run->words[step->grid[2]];
}

static int launch(Run *run, const Step *step) {
    const uint64_t *words = run->words;
    if (!step_is_launched(run, step)) return 0;
    step_parameters(run, step);
    run->failed = "cuLaunchKernel";
    return run->plan->module->driver->call.launch(
        step->function, (unsigned)words[step->grid[0]], (unsigned)words[step->grid[1]],
        (unsigned)words[step->grid[2]], step->block[0], step->block[1], step->block[2],
        (unsigned)words[step->dynamic], run->stream, run->parameters, NULL);
}

static int fill(Run *run, const Step *step) {
    size_t bytes = run->words[step->dynamic];
    Address to = value_of(run->words, run->plan->references[step->first_word]);
    run->failed = "cuMemsetD8Async";
    return bytes ? run->plan->module->driver->call.memset_bytes(
                       to, (unsigned char)step->block[0], bytes, run->stream)
                 : 0;
}

static int enqueue_step(Run *run, const Step *step) {
    if (step->kind == STEP_KERNEL) return launch(run, step);
    if (step->kind == STEP_MEMSET) return fill(run, step);
    return product_enqueue(run, &run->plan->products[step->product],
                           run->prepared[step->product]);
}

/* The node that the last step added to the graph under capture; NULL if it added none. */
static int note_node(Run *run, Py_ssize_t number) {
    int status;
    void *const *nodes;
    size_t count = 0;
    run->failed = "cuStreamGetCaptureInfo";
    int code = run->plan->module->driver->call.capture_info(run->stream, &status, NULL, NULL,
                                                            &nodes, &count);
    if (!code) run->nodes[number] = count ? nodes[0] : NULL;
    return code;
}

/* Behind the last step that may fail, so that a call need not wait for those after it. */
static int copy_status(Run *run) {
    const DriverFunctions *call = &run->plan->module->driver->call;
    run->failed = "cuMemcpyDtoHAsync";
    int code = call->copy_to_host(run->report, run->status, STATUS_BYTES, run->stream);
    if (code || !run->mark) return code;
    run->failed = "cuEventRecord";
    return call->event_record(run->mark, run->stream);
}

int plan_enqueue(Run *run, Py_ssize_t first, Py_ssize_t stop) {
    const PlanObject *plan = run->plan;
    for (Py_ssize_t i = first; i < stop && !run->code; i++) {
        run->code = enqueue_step(run, &plan->steps[i]);
        if (!run->code && run->nodes) run->code = note_node(run, i);
        if (!run->code && run->status && i == plan->last_failing) run->code = copy_status(run);
    }
    return run->code ? -1 : 0;
}

int run_failed(const Run *run) {
    DriverObject *driver = run->plan->module->driver;
    return run->is_product_code ? products_failed(driver, run->failed, run->code)
                                : driver_failed(driver, run->failed, run->code);
}

/* ---- making plans ---- */

static void *copied(Py_ssize_t count, size_t size) {
    void *memory = PyMem_Calloc((size_t)count + 1, size);
    if (!memory) PyErr_NoMemory();
    return memory;
}

static int read_slot(const PlanObject *self, PyObject *number, int *slot) {
    long value = PyLong_AsLong(number);
    if (value == -1 && PyErr_Occurred()) return -1;
    if (value < -1 || value >= self->slot_count) {
        PyErr_Format(PyExc_ValueError, "a plan of %d words has no word %ld", self->slot_count,
                     value);
        return -1;
    }
    *slot = (int)value;
    return 0;
}

static int read_slots(const PlanObject *self, PyObject *numbers, int *slots, Py_ssize_t count) {
    if (!PyTuple_Check(numbers) || PyTuple_GET_SIZE(numbers) != count) {
        PyErr_Format(PyExc_ValueError, "a plan: expected a tuple of %zd words", count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (read_slot(self, PyTuple_GET_ITEM(numbers, i), &slots[i]) < 0) return -1;
        if (slots[i] < 0) return PyErr_SetString(PyExc_ValueError, "a plan: -1 is no word"), -1;
    }
    return 0;
}

static int read_word(const PlanObject *self, PyObject *pair, Word *word) {
    PyObject *base, *addend;
    if (!PyArg_ParseTuple(pair, "OO", &base, &addend)) return -1;
    if (read_slot(self, base, &word->base) < 0 || read_slot(self, addend, &word->addend) < 0)
        return -1;
    return word->base < 0 ? (PyErr_SetString(PyExc_ValueError, "a plan: -1 is no word"), -1) : 0;
}

static int read_constants(PlanObject *self, PyObject *constants) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); i++) {
        long long value;
        PyObject *number;
        int slot;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(constants, i), "OL", &number, &value) ||
            read_slot(self, number, &slot) < 0)
            return -1;
        if (slot >= 0) self->initial[slot] = (uint64_t)value;
    }
    return 0;
}

static int read_arithmetic(PlanObject *self, PyObject *given) {
    self->arithmetic_count = PyTuple_GET_SIZE(given);
    self->arithmetic = copied(self->arithmetic_count, sizeof(Arithmetic));
    if (!self->arithmetic) return -1;
    for (Py_ssize_t i = 0; i < self->arithmetic_count; i++) {
        PyObject *slots;
        Arithmetic *a = &self->arithmetic[i];
        int places[3];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(given, i), "iO", &a->operation, &slots) ||
            read_slots(self, slots, places, 3) < 0)
            return -1;
        a->target = places[0];
        a->left = places[1];
        a->right = places[2];
    }
    return 0;
}

/* Words of a step, in runs: ((word, ...), ...). */
static int read_parameters(PlanObject *self, Step *step, PyObject *given) {
    step->first_word = (int)self->reference_count;
    step->first_parameter = (int)self->parameter_count;
    step->parameter_count = (int)PyTuple_GET_SIZE(given);
    for (int i = 0; i < step->parameter_count; i++) {
        PyObject *run = PyTuple_GET_ITEM(given, i);
        Parameter *parameter = &self->parameters[self->parameter_count++];
        parameter->first = step->word_count;
        parameter->count = (int)PyTuple_GET_SIZE(run);
        for (int k = 0; k < parameter->count; k++, step->word_count++)
            if (read_word(self, PyTuple_GET_ITEM(run, k),
                          &self->references[self->reference_count++]) < 0)
                return -1;
    }
    if (step->word_count > self->most_words) self->most_words = step->word_count;
    if (step->parameter_count > self->most_parameters)
        self->most_parameters = step->parameter_count;
    return 0;
}

static int read_kernel(PlanObject *self, Step *step, PyObject *given) {
    const char *name;
    PyObject *grid, *dynamic, *parameters;
    int most_dynamic, code;
    if (!PyArg_ParseTuple(given, "isO(III)OiO!p", &step->kind, &name, &grid, &step->block[0],
                          &step->block[1], &step->block[2], &dynamic, &most_dynamic, &PyTuple_Type,
                          &parameters, &step->may_fail))
        return -1;
    const DriverFunctions *call = &self->module->driver->call;
    code = call->module_function(&step->function, self->module->module, name);
    if (code) return driver_failed(self->module->driver, "cuModuleGetFunction", code);
    if (most_dynamic > 0) {
        code = call->function_set(step->function, MAX_DYNAMIC_SHARED_SIZE_BYTES, most_dynamic);
        if (code) return driver_failed(self->module->driver, "cuFuncSetAttribute", code);
    }
    if (read_slots(self, grid, step->grid, 3) < 0 || read_slot(self, dynamic, &step->dynamic) < 0)
        return -1;
    return read_parameters(self, step, parameters);
}

static int read_memset(PlanObject *self, Step *step, PyObject *given) {
    PyObject *word, *bytes;
    if (!PyArg_ParseTuple(given, "iOOI", &step->kind, &word, &bytes, &step->block[0])) return -1;
    step->first_word = (int)self->reference_count;
    step->word_count = 1;
    if (self->most_words < 1) self->most_words = 1;
    if (read_word(self, word, &self->references[self->reference_count++]) < 0) return -1;
    return read_slot(self, bytes, &step->dynamic);
}

static int read_outer(PlanObject *self, Product *product, PyObject *given) {
    product->outer_count = (int)PyTuple_GET_SIZE(given);
    product->outer = copied(product->outer_count, sizeof *product->outer);
    if (!product->outer) return -1;
    for (int d = 0; d < product->outer_count; d++)
        if (read_slots(self, PyTuple_GET_ITEM(given, d), product->outer[d], 4) < 0) return -1;
    return 0;
}

static int read_product(PlanObject *self, Step *step, PyObject *given) {
    PyObject *left, *right, *result, *bias, *numbers, *outer;
    step->product = (int)self->product_count++;
    Product *p = &self->products[step->product];
    if (!PyArg_ParseTuple(given, "iiippiOOOOOO!", &step->kind, &p->type, &p->result_type,
                          &p->is_left_transposed, &p->is_right_transposed, &p->epilogue, &left, &right, &result, &bias, &numbers, &PyTuple_Type,
                          &outer))
        return -1;
    /* Its words are where a changed address shows. */
    step->first_word = (int)self->reference_count;
    step->word_count = 4;
    Word *words = &self->references[self->reference_count];
    self->reference_count += 4;
    if (read_word(self, left, &words[0]) < 0 || read_word(self, right, &words[1]) < 0 ||
        read_word(self, result, &words[2]) < 0 || read_word(self, bias, &words[3]) < 0)
        return -1;
    p->left = words[0];
    p->right = words[1];
    p->result = words[2];
    p->bias = words[3];
    if (self->most_words < 4) self->most_words = 4;
    if (read_slots(self, numbers, p->numbers, PRODUCT_NUMBERS) < 0) return -1;
    return read_outer(self, p, outer);
}

static int step_kind(PyObject *given) {
    if (!PyTuple_Check(given) || !PyTuple_GET_SIZE(given)) return -1;
    return (int)PyLong_AsLong(PyTuple_GET_ITEM(given, 0));
}

/* Upper bounds of the words and parameters that steps have together. */
static int count_words(PyObject *steps, Py_ssize_t *words, Py_ssize_t *parameters) {
    *words = *parameters = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++) {
        PyObject *step = PyTuple_GET_ITEM(steps, i);
        *words += 4;
        if (step_kind(step) != STEP_KERNEL) continue;
        PyObject *runs = PyTuple_GET_SIZE(step) == 8 ? PyTuple_GET_ITEM(step, 6) : NULL;
        if (!runs || !PyTuple_Check(runs))
            return PyErr_SetString(PyExc_ValueError, "a plan: this is no step"), -1;
        *parameters += PyTuple_GET_SIZE(runs);
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(runs); k++) {
            if (!PyTuple_Check(PyTuple_GET_ITEM(runs, k)))
                return PyErr_SetString(PyExc_ValueError, "a plan: this is no step"), -1;
            *words += PyTuple_GET_SIZE(PyTuple_GET_ITEM(runs, k));
        }
    }
    return 0;
}

static int read_steps(PlanObject *self, PyObject *steps) {
    Py_ssize_t words, parameters;
    self->step_count = PyTuple_GET_SIZE(steps);
    if (count_words(steps, &words, &parameters) < 0) return -1;
    self->steps = copied(self->step_count, sizeof(Step));
    self->references = copied(words, sizeof(Word));
    self->parameters = copied(parameters, sizeof(Parameter));
    self->products = copied(self->step_count, sizeof(Product));
    if (!self->steps || !self->references || !self->parameters || !self->products) return -1;
    self->last_failing = -1;
    for (Py_ssize_t i = 0; i < self->step_count; i++) {
        PyObject *given = PyTuple_GET_ITEM(steps, i);
        Step *step = &self->steps[i];
        int kind = step_kind(given);
        int done = kind == STEP_KERNEL    ? read_kernel(self, step, given)
                   : kind == STEP_MEMSET  ? read_memset(self, step, given)
                   : kind == STEP_PRODUCT ? read_product(self, step, given)
                                          : (PyErr_SetString(PyExc_ValueError, "a plan: this is no step"), -1);
        if (done < 0) return -1;
        if (step->may_fail) self->last_failing = i;
    }
    return 0;
}

/* Algorithms of the products, in order: bytes that `algorithms` of a program gave. */
static int read_presets(PlanObject *self, PyObject *presets) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(presets) && i < self->product_count; i++) {
        PyObject *preset = PyTuple_GET_ITEM(presets, i);
        uint64_t *own = self->products[i].preset;
        if (!PyBytes_Check(preset) ||
            PyBytes_GET_SIZE(preset) != (Py_ssize_t)sizeof self->products[i].preset)
            return PyErr_SetString(PyExc_ValueError, "a plan: this is no algorithm"), -1;
        memcpy(own, PyBytes_AS_STRING(preset), sizeof self->products[i].preset);
    }
    return 0;
}

static PyObject *Plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"module", "slots", "constants", "arithmetic", "steps", "presets", NULL};
    PyObject *module, *constants, *arithmetic, *steps, *presets;
    int slots;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!iO!O!O!O!:Plan", names, &Module_Type, &module,
                                     &slots, &PyTuple_Type, &constants, &PyTuple_Type, &arithmetic,
                                     &PyTuple_Type, &steps, &PyTuple_Type, &presets))
        return NULL;
    PlanObject *self = (PlanObject *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->module = (ModuleObject *)Py_NewRef(module);
    self->slot_count = slots;
    self->initial = copied(slots, sizeof(uint64_t));
    if (!self->initial || driver_enter(self->module->driver, self->module->device) < 0 ||
        read_constants(self, constants) < 0 || read_arithmetic(self, arithmetic) < 0 ||
        read_steps(self, steps) < 0 || read_presets(self, presets) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void Plan_dealloc(PlanObject *self) {
    for (Py_ssize_t i = 0; i < self->product_count; i++) {
        product_clear(self->module->driver, &self->products[i]);
        PyMem_Free(self->products[i].outer);
    }
    PyMem_Free(self->initial);
    PyMem_Free(self->arithmetic);
    PyMem_Free(self->references);
    PyMem_Free(self->parameters);
    PyMem_Free(self->steps);
    PyMem_Free(self->products);
    Py_XDECREF(self->module);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* run(stream, words): words are given from slot 0 on. Waits for nothing. */
static PyObject *Plan_run(PlanObject *self, PyObject *args) {
    unsigned long long stream, workspace;
    PyObject *words;
    if (!PyArg_ParseTuple(args, "KO!K", &stream, &PyTuple_Type, &words, &workspace)) return NULL;
    if (PyTuple_GET_SIZE(words) > self->slot_count)
        return PyErr_Format(PyExc_ValueError, "%zd words were given to a plan of %d",
                            PyTuple_GET_SIZE(words), self->slot_count);
    if (driver_enter(self->module->driver, self->module->device) < 0) return NULL;
    Run run;
    size_t bytes;
    void *scratch = PyMem_Calloc(1, plan_scratch(self) + 1);
    if (!scratch) return PyErr_NoMemory();
    plan_open(&run, self, scratch);
    run.stream = (void *)(uintptr_t)stream;
    run.workspace = workspace;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(words); i++)
        run.words[i] = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(words, i));
    int done = PyErr_Occurred() ? -1 : 0;
    if (!done) {
        plan_compute(self, run.words);
        done = plan_prepare(&run, &bytes);
    }
    if (!done && bytes > 0 && !workspace) {
        PyErr_Format(PyExc_ValueError, "the products of this plan need %zu bytes", bytes);
        done = -1;
    }
    if (!done) {
        Py_BEGIN_ALLOW_THREADS
        done = plan_enqueue(&run, 0, self->step_count);
        Py_END_ALLOW_THREADS
        if (done < 0) run_failed(&run);
    }
    plan_close(&run);
    PyMem_Free(scratch);
    if (done < 0) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef Plan_methods[] = {
    {"run", (PyCFunction)Plan_run, METH_VARARGS,
     "run(stream, words, workspace): give all steps to a stream; words from the first one on."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef Plan_members[] = {
    {"slots", T_INT, offsetof(PlanObject, slot_count), READONLY, "Number of words."},
    {"step_count", T_PYSSIZET, offsetof(PlanObject, step_count), READONLY, "Number of steps."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Plan_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.codegen._device.Plan",
    .tp_basicsize = sizeof(PlanObject),
    .tp_dealloc = (destructor)Plan_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = Plan_methods,
    .tp_members = Plan_members,
    .tp_new = Plan_new,
    .tp_doc = "Kernels, memsets and products in order, on words that differ between calls.",
};

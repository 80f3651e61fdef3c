/* A launch plan: what runs on a GPU for one graph, in order, without Python in between.
 *
 * All that differs between calls is an array of 64-bit words: addresses of arrays, run-time numbers,
 * sizes. Kernels, memsets and products name words by their position (`slot`); some words follow from
 * others by arithmetic. A plan itself does not change once it is made, but for descriptions of
 * products that are kept by size. */
#ifndef DYNAJIT_DEVICE_PLAN_H
#define DYNAJIT_DEVICE_PLAN_H

#include "driver.h"

#include <pthread.h>

/* words[base], plus words[addend] unless that is -1. */
typedef struct {
    int base, addend;
} Word;

/* Neighbouring words of a step that make one parameter of its kernel. */
typedef struct {
    int first, count;
} Parameter;

enum { ADD, MULTIPLY, FLOOR_DIVIDE, MODULO, MINIMUM, MAXIMUM };

/* words[target] = words[left] operation words[right], as int64 */
typedef struct {
    int operation, target, left, right;
} Arithmetic;

enum { STEP_KERNEL, STEP_MEMSET, STEP_PRODUCT };

typedef struct {
    int kind;
    void *function;                /* of a kernel */
    int grid[3], dynamic;          /* slots; of a memset `dynamic` is the number of bytes */
    unsigned block[3];             /* of a memset block[0] is the byte */
    int first_word, word_count;    /* in `references` */
    int first_parameter, parameter_count;
    int product;                   /* in `products` */
    int may_fail;
} Step;

enum { ROWS, INNER, COLUMNS, LEFT_LEADING, RIGHT_LEADING, RESULT_LEADING, BATCH, LEFT_STRIDE,
       RIGHT_STRIDE, RESULT_STRIDE, PRODUCT_NUMBERS };

/* Sizes and alignments, for which a library has chosen how to multiply. */
typedef struct Prepared {
    struct Prepared *next;
    int64_t numbers[PRODUCT_NUMBERS];
    int alignment[3], compute;
    int is_zero; /* there is nothing to add up, or no result */
    void *desc, *left, *right, *result;
    uint64_t algorithm[8];
    size_t workspace;
    long users; /* runs that are under way; guarded by the GIL */
    pthread_mutex_t lock; /* of `desc`, which holds the address of the bias */
} Prepared;

/* result = left @ right, row-major; strides of `outer` loops in bytes, all others in elements. */
typedef struct {
    int type, result_type;
    int is_left_transposed, is_right_transposed;
    int epilogue;
    Word left, right, result, bias;
    int numbers[PRODUCT_NUMBERS]; /* slots */
    int outer_count;
    int (*outer)[4]; /* slots: size, strides of left, right and result */
    Prepared *prepared;
    int prepared_count;
    uint64_t preset[8]; /* an algorithm measured earlier; zeros: what the library suggests */
} Product;

typedef struct {
    PyObject_HEAD
    ModuleObject *module;
    int slot_count, most_words, most_parameters;
    uint64_t *initial; /* words with the constants in place */
    Arithmetic *arithmetic;
    Word *references;
    Parameter *parameters;
    Step *steps;
    Product *products;
    Py_ssize_t arithmetic_count, reference_count, parameter_count, step_count, product_count;
    Py_ssize_t last_failing; /* step; -1 if none may fail */
} PlanObject;

extern PyTypeObject Plan_Type;

/* What a kernel reports: code, value, size, lowest (see headers/indices.h). */
#define STATUS_BYTES 32

/* One run of a plan: scratch memory, and what went wrong. */
typedef struct {
    PlanObject *plan;
    uint64_t *words;
    Prepared **prepared; /* by product */
    uint64_t *values;    /* the largest number of words of a step */
    void **parameters;
    void *stream;
    Address status;      /* where kernels report errors; 0: none may */
    int64_t *report;     /* of the host: what they have reported, copied there */
    void *mark;          /* event behind that copy, or NULL */
    uint64_t workspace; /* address of memory for products */
    void **nodes; /* by step: where captured nodes are noted, or NULL */
    const char *failed; /* the call that failed */
    int code, is_product_code;
} Run;

/* Bytes of scratch memory behind the words of a run. */
size_t plan_scratch(const PlanObject *plan);

/* Point a run into zeroed memory of plan_scratch bytes. */
void plan_open(Run *run, PlanObject *plan, void *scratch);

/* Fill in what follows from the given words. */
void plan_compute(const PlanObject *plan, uint64_t *words);

/* Choose how to multiply; *bytes: of memory for products. -1 with an exception. Needs the GIL, and
 * a call of plan_close. */
int plan_prepare(Run *run, size_t *bytes);
void plan_close(Run *run);

/* Give the steps from `first` to in front of `stop` to the stream; -1 with `failed`. Needs no GIL. */
int plan_enqueue(Run *run, Py_ssize_t first, Py_ssize_t stop);

/* The parameters of a kernel step, in `values` and `parameters`. */
void step_parameters(const Run *run, const Step *step);

/* Whether a kernel step has blocks to run. */
int step_is_launched(const Run *run, const Step *step);

/* Python's exception for what went wrong in a run; -1. */
int run_failed(const Run *run);

/* ---- products ---- */

/* Products of float32 may use TF32; guarded by the GIL. */
extern int products_allow_tf32;

/* Of memory that algorithms may ask for: what the library's documentation recommends for Hopper. */
#define PRODUCT_MOST_WORKSPACE ((size_t)32 << 20)

Prepared *product_prepare(PlanObject *plan, Product *product, const uint64_t *words);
int product_enqueue(Run *run, const Product *product, Prepared *prepared);
void product_clear(DriverObject *driver, Product *product);

/* Measure the algorithms for a product whose operands are there, and keep the fastest; -1 with
 * `failed`. */
int product_tune(Run *run, Product *product, Prepared *prepared);

#endif

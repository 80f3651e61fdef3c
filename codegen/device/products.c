/* Matrix products by cuBLASLt: descriptions by size and alignment, and the calls. See plan.h.
 *
 * The library stores matrices by columns: a row-major product is computed as the product of the
 * transposed operands in the other order, so that its bias runs along our columns. */
#include "plan.h"

#include <string.h>

int products_allow_tf32;

#define MOST_ALIGNMENT 256
#define MOST_PREPARED 64
#define CANDIDATES 8
#define REPEATS 5

static uint64_t word(const uint64_t *words, Word reference) {
    return words[reference.base] + (reference.addend < 0 ? 0 : words[reference.addend]);
}

static int alignment_of(uint64_t address) {
    uint64_t lowest = address & -address;
    return !lowest || lowest > MOST_ALIGNMENT ? MOST_ALIGNMENT : (int)lowest;
}

static void prepared_free(DriverObject *driver, Prepared *prepared) {
    const ProductFunctions *call = &driver->products;
    if (prepared->desc) call->desc_destroy(prepared->desc);
    if (prepared->left) call->layout_destroy(prepared->left);
    if (prepared->right) call->layout_destroy(prepared->right);
    if (prepared->result) call->layout_destroy(prepared->result);
    pthread_mutex_destroy(&prepared->lock);
    PyMem_Free(prepared);
}

void product_clear(DriverObject *driver, Product *product) {
    while (product->prepared) {
        Prepared *next = product->prepared->next;
        prepared_free(driver, product->prepared);
        product->prepared = next;
    }
    product->prepared_count = 0;
}

/* A matrix as it lies in memory, by columns. */
static int make_layout(const ProductFunctions *call, void **layout, int type, int64_t rows,
                       int64_t columns, int64_t leading, int64_t batch, int64_t stride) {
    int32_t count = (int32_t)batch;
    if (leading < rows) leading = rows; /* of a single column: never used */
    int code = call->layout_create(layout, type, (uint64_t)rows, (uint64_t)columns, leading);
    if (!code && batch > 1) code = call->layout_set(*layout, LAYOUT_BATCH_COUNT, &count, 4);
    if (!code && batch > 1) code = call->layout_set(*layout, LAYOUT_BATCH_STRIDE, &stride, 8);
    return code;
}

static int describe(const ProductFunctions *call, const Product *product, Prepared *prepared) {
    const int64_t *n = prepared->numbers;
    int32_t yes = 1, epilogue = product->epilogue, bias_type = product->result_type;
    int scale = product->type == DATA_F64 ? DATA_F64 : DATA_F32;
    int code = call->desc_create(&prepared->desc, prepared->compute, scale);
    if (!code && product->is_right_transposed)
        code = call->desc_set(prepared->desc, DESC_TRANSPOSE_A, &yes, 4);
    if (!code && product->is_left_transposed)
        code = call->desc_set(prepared->desc, DESC_TRANSPOSE_B, &yes, 4);
    if (!code && epilogue != EPILOGUE_DEFAULT)
        code = call->desc_set(prepared->desc, DESC_EPILOGUE, &epilogue, 4);
    if (!code && epilogue & EPILOGUE_BIAS)
        code = call->desc_set(prepared->desc, DESC_BIAS_TYPE, &bias_type, 4);
    int64_t right[2] = {n[COLUMNS], n[INNER]}, left[2] = {n[INNER], n[ROWS]};
    int swap_right = product->is_right_transposed, swap_left = product->is_left_transposed;
    if (!code)
        code = make_layout(call, &prepared->right, product->type, right[swap_right],
                           right[!swap_right], n[RIGHT_LEADING], n[BATCH], n[RIGHT_STRIDE]);
    if (!code)
        code = make_layout(call, &prepared->left, product->type, left[swap_left],
                           left[!swap_left], n[LEFT_LEADING], n[BATCH], n[LEFT_STRIDE]);
    if (!code)
        code = make_layout(call, &prepared->result, product->result_type, n[COLUMNS], n[ROWS],
                           n[RESULT_LEADING], n[BATCH], n[RESULT_STRIDE]);
    return code;
}

/* The algorithms that the library suggests, best first. */
static int suggest(const ProductFunctions *call, void *handle, const Prepared *prepared,
                   Heuristic *results, int wanted, int *found) {
    void *preference;
    uint64_t workspace = PRODUCT_MOST_WORKSPACE;
    uint32_t reductions = REDUCTIONS_IN_COMPUTE_TYPE;
    const int attributes[4] = {PREFERENCE_ALIGNMENT_A, PREFERENCE_ALIGNMENT_B,
                               PREFERENCE_ALIGNMENT_C, PREFERENCE_ALIGNMENT_D};
    const int places[4] = {1, 0, 2, 2}; /* ours: left, right, result */
    int code = call->preference_create(&preference);
    if (code) return code;
    code = call->preference_set(preference, PREFERENCE_WORKSPACE, &workspace, 8);
    if (!code) code = call->preference_set(preference, PREFERENCE_REDUCTIONS, &reductions, 4);
    for (int i = 0; i < 4 && !code; i++) {
        uint32_t bytes = (uint32_t)prepared->alignment[places[i]];
        code = call->preference_set(preference, attributes[i], &bytes, 4);
    }
    if (!code)
        code = call->heuristic(handle, prepared->desc, prepared->right, prepared->left,
                               prepared->result, prepared->result, preference, wanted, results,
                               found);
    call->preference_destroy(preference);
    return code;
}

static int choose(PlanObject *plan, const Product *product, Prepared *prepared) {
    DriverObject *driver = plan->module->driver;
    void *handle = driver_products(driver, plan->module->device);
    Heuristic results[CANDIDATES];
    int found = 0;
    if (!handle) return -1;
    int code = describe(&driver->products, product, prepared);
    if (code) return products_failed(driver, "cublasLtMatmulDescCreate", code);
    code = suggest(&driver->products, handle, prepared, results, CANDIDATES, &found);
    if (code || !found)
        return products_failed(driver, "cublasLtMatmulAlgoGetHeuristic", code ? code : 15);
    int chosen = 0;
    for (int i = 0; i < found; i++)
        if (!memcmp(results[i].algorithm, product->preset, sizeof product->preset)) chosen = i;
    memcpy(prepared->algorithm, results[chosen].algorithm, sizeof prepared->algorithm);
    prepared->workspace = results[chosen].workspace;
    return 0;
}

/* Drop what no run uses, if there is much. */
static void trim(DriverObject *driver, Product *product) {
    Prepared **place = &product->prepared;
    while (product->prepared_count >= MOST_PREPARED && *place) {
        Prepared *prepared = *place;
        if (prepared->users) {
            place = &prepared->next;
            continue;
        }
        *place = prepared->next;
        prepared_free(driver, prepared);
        product->prepared_count--;
    }
}

static int matches(const Prepared *prepared, const Prepared *wanted) {
    return prepared->compute == wanted->compute &&
           !memcmp(prepared->numbers, wanted->numbers, sizeof wanted->numbers) &&
           !memcmp(prepared->alignment, wanted->alignment, sizeof wanted->alignment);
}

Prepared *product_prepare(PlanObject *plan, Product *product, const uint64_t *words) {
    Prepared wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.compute = product->type == DATA_F64                           ? COMPUTE_F64
                     : product->type == DATA_F32 && products_allow_tf32 ? COMPUTE_TF32
                                                                        : COMPUTE_F32;
    for (int i = 0; i < PRODUCT_NUMBERS; i++)
        wanted.numbers[i] = (int64_t)words[product->numbers[i]];
    /* Strides of loops outside are sums of whole rows: they are aligned as their elements are. */
    const Word operands[3] = {product->left, product->right, product->result};
    for (int i = 0; i < 3; i++) {
        wanted.alignment[i] = alignment_of(word(words, operands[i]));
        for (int d = 0; d < product->outer_count; d++) {
            int step = alignment_of(words[product->outer[d][1 + i]]);
            if (step < wanted.alignment[i]) wanted.alignment[i] = step;
        }
    }
    for (Prepared *prepared = product->prepared; prepared; prepared = prepared->next)
        if (matches(prepared, &wanted)) {
            prepared->users++;
            return prepared;
        }
    trim(plan->module->driver, product);
    Prepared *made = PyMem_Malloc(sizeof *made);
    if (!made) return (Prepared *)PyErr_NoMemory();
    *made = wanted;
    pthread_mutex_init(&made->lock, NULL);
    const int64_t *n = made->numbers;
    made->is_zero = !(n[ROWS] && n[COLUMNS] && n[INNER] && n[BATCH]);
    if (!made->is_zero && choose(plan, product, made) < 0) {
        prepared_free(plan->module->driver, made);
        return NULL;
    }
    made->users = 1;
    made->next = product->prepared;
    product->prepared = made;
    product->prepared_count++;
    return made;
}

static size_t element_bytes(int type) { return type == DATA_F64 ? 8 : type == DATA_F32 ? 4 : 2; }

/* One call of the library, at offsets of the operands. */
static int multiply(Run *run, const Product *product, Prepared *prepared, const int64_t *offsets) {
    DriverObject *driver = run->plan->module->driver;
    const ProductFunctions *call = &driver->products;
    const uint64_t *words = run->words;
    uint64_t left = word(words, product->left) + (uint64_t)offsets[0];
    uint64_t right = word(words, product->right) + (uint64_t)offsets[1];
    uint64_t result = word(words, product->result) + (uint64_t)offsets[2];
    const int64_t *n = prepared->numbers;
    if (prepared->is_zero) {
        size_t bytes = (size_t)(n[BATCH] * n[ROWS] * n[COLUMNS]) * element_bytes(product->result_type);
        run->failed = "cuMemsetD8Async";
        return bytes ? driver->call.memset_bytes(result, 0, bytes, run->stream) : 0;
    }
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    int is_wide = product->type == DATA_F64, has_bias = product->epilogue & EPILOGUE_BIAS, code = 0;
    if (has_bias) {
        uint64_t bias = word(words, product->bias);
        pthread_mutex_lock(&prepared->lock);
        code = call->desc_set(prepared->desc, DESC_BIAS_POINTER, &bias, 8);
    }
    if (!code)
        code = call->matmul(
            driver->handles[run->plan->module->device], prepared->desc,
            is_wide ? (const void *)&wide_one : &one, (const void *)(uintptr_t)right,
            prepared->right, (const void *)(uintptr_t)left, prepared->left,
            is_wide ? (const void *)&wide_zero : &zero, (const void *)(uintptr_t)result,
            prepared->result, (void *)(uintptr_t)result, prepared->result, prepared->algorithm,
            (void *)(uintptr_t)run->workspace, prepared->workspace, run->stream);
    if (has_bias) pthread_mutex_unlock(&prepared->lock);
    run->failed = "cublasLtMatmul";
    run->is_product_code = 1;
    return code;
}

int product_enqueue(Run *run, const Product *product, Prepared *prepared) {
    int64_t count = 1;
    for (int d = 0; d < product->outer_count; d++)
        count *= (int64_t)run->words[product->outer[d][0]];
    for (int64_t turn = 0; turn < count; turn++) {
        int64_t rest = turn, offsets[3] = {0, 0, 0};
        for (int d = product->outer_count - 1; d >= 0; d--) {
            int64_t size = (int64_t)run->words[product->outer[d][0]], index = rest % size;
            rest /= size;
            for (int i = 0; i < 3; i++)
                offsets[i] += index * (int64_t)run->words[product->outer[d][1 + i]];
        }
        int code = multiply(run, product, prepared, offsets);
        if (code) return code;
        run->is_product_code = 0;
    }
    return 0;
}

/* ---- measuring ---- */

static int timed(Run *run, const Product *product, Prepared *prepared, void *const *events,
                 float *milliseconds) {
    const DriverFunctions *call = &run->plan->module->driver->call;
    int code = product_enqueue(run, product, prepared); /* the first may load code */
    if (!code) code = call->event_record(events[0], run->stream);
    for (int i = 0; i < REPEATS && !code; i++) code = product_enqueue(run, product, prepared);
    if (!code) code = call->event_record(events[1], run->stream);
    if (!code) code = call->event_synchronize(events[1]);
    return code ? code : call->event_elapsed(milliseconds, events[0], events[1]);
}

int product_tune(Run *run, Product *product, Prepared *prepared) {
    DriverObject *driver = run->plan->module->driver;
    Heuristic results[CANDIDATES];
    void *events[2] = {NULL, NULL};
    int found = 0, best = 0;
    float least = 0;
    if (prepared->is_zero) return 0;
    run->is_product_code = 1;
    run->failed = "cublasLtMatmulAlgoGetHeuristic";
    run->code = suggest(&driver->products, driver->handles[run->plan->module->device], prepared,
                        results, CANDIDATES, &found);
    if (run->code) return -1;
    run->is_product_code = 0;
    run->failed = "cuEventCreate";
    for (int i = 0; i < 2 && !run->code; i++)
        run->code = driver->call.event_create(&events[i], EVENT_DEFAULT);
    for (int i = 0; i < found && !run->code; i++) {
        float milliseconds = 0;
        memcpy(prepared->algorithm, results[i].algorithm, sizeof prepared->algorithm);
        prepared->workspace = results[i].workspace;
        run->code = timed(run, product, prepared, events, &milliseconds);
        if (!i || milliseconds < least) {
            least = milliseconds;
            best = i;
        }
    }
    for (int i = 0; i < 2; i++)
        if (events[i]) driver->call.event_destroy(events[i]);
    if (run->code) return -1;
    memcpy(prepared->algorithm, results[best].algorithm, sizeof prepared->algorithm);
    memcpy(product->preset, results[best].algorithm, sizeof product->preset);
    prepared->workspace = results[best].workspace;
    return 0;
}

/* Products of NumPy's arrays by the functions of product_loops.h; included by _products.c.
 *
 * Contract: `multiply_arrays` gives a new array, or NULL without an exception for operands that it
 * leaves to NumPy. Large products are cut into rows, or into the matrices of a stack, for several
 * threads: their bits are the same. Those of float32 with few rows or columns, vectors too, are what
 * PyTorch has on CPUs of AMD (few_products.h).
 */

enum {
    MOST_DIMS = 32,          /* of arrays that are multiplied here */
    QUIET_WORK = 1 << 20,    /* multiplications up to which others may wait for the interpreter, */
    NAIVE_WORK = 400,        /* below which PyTorch multiplies a stack's matrices by plain loops */
    FEW_CUT = 16,            /* parts of products with few rows or columns are multiples of it */
    VECTOR_WORK = 1 << 20,   /* and up to which one thread is used: for vectors, */
    SERIAL_WORK = 1 << 22,   /* and for matrices, 30 to 60 us; a waiting thread
                              * takes 5 to 50 us until it works */
};

/* A stack of products; strides in bytes. */
typedef struct {
    Multiply multiply;
    int64_t size;                /* of an element */
    int64_t n, k, m;
    const char *a, *b;
    char *c;
    int64_t a_row, a_column, b_row, b_column;
    int dims;                    /* of the stack */
    int64_t shape[MOST_DIMS], a_stack[MOST_DIMS], b_stack[MOST_DIMS];
    int how;                     /* bits of `How` */
    int by_columns;              /* the parts of each matrix have all rows */
    int64_t bands;               /* those parts, side by side */
    int64_t units;               /* matrices times bands */
    atomic_int failed;           /* a thread had no memory */
} Products;

/* Where a band begins, of rows or of columns. */
static int64_t edge_of(const Products *job, int64_t length, int64_t band) {
    if (!(job->how & IS_FEW)) return part(length, job->bands, band);
    return least(length, FEW_CUT * part(parts(length, FEW_CUT), job->bands, band));
}

static void multiply_unit(void *products, int64_t unit) {
    Products *job = products;
    int64_t matrix = unit / job->bands, band = unit % job->bands, rows = job->n, columns = job->m;
    const int64_t length = job->by_columns ? columns : rows, start = edge_of(job, length, band);
    const int64_t count = edge_of(job, length, band + 1) - start;
    const char *a = job->a, *b = job->b;
    char *c = job->c + matrix * rows * columns * job->size;
    if (job->by_columns) {
        columns = count, b += start * job->b_column, c += start * job->size;
    }
    else {
        rows = count, a += start * job->a_row, c += start * columns * job->size;
    }
    for (int dim = job->dims - 1; dim >= 0; dim--) {
        const int64_t index = matrix % job->shape[dim];
        matrix /= job->shape[dim];
        a += index * job->a_stack[dim], b += index * job->b_stack[dim];
    }
    const int how = job->how | (job->by_columns && band > 0 ? IS_BESIDE : 0);
    if (rows == 0 || columns == 0) return;
    if (!job->multiply(a, job->a_row / job->size, job->a_column / job->size, b,
                       job->b_row / job->size, job->b_column / job->size, c, job->m, rows, job->k,
                       columns, -1, how))
        atomic_store(&job->failed, 1);
}

static void multiply_alone(Products *job) {
    for (int64_t unit = 0; unit < job->units; unit++) multiply_unit(job, unit);
}

/* ---------------------------------------------------------------------------- The arrays ---- */

static PyObject *count_threads; /* () -> how many may be used; owned */

/* Whether the loops can read it: strides are whole elements, and go up. */
static int is_readable(PyArrayObject *array) {
    const npy_intp size = PyArray_ITEMSIZE(array);
    if (!PyArray_ISALIGNED(array) || PyArray_ISBYTESWAPPED(array)) return 0;
    for (int dim = 0; dim < PyArray_NDIM(array); dim++) {
        const npy_intp stride = PyArray_STRIDE(array, dim);
        if (stride < 0 || stride % size) return 0;
    }
    return 1;
}

/* Sets the stack's sizes and strides; 0 if they do not broadcast. */
static int find_stack(Products *job, PyArrayObject *a, PyArrayObject *b) {
    const int a_dims = PyArray_NDIM(a) - 2, b_dims = PyArray_NDIM(b) - 2;
    job->dims = a_dims > b_dims ? a_dims : b_dims;
    for (int dim = 0; dim < job->dims; dim++) {
        const int i = dim - (job->dims - a_dims), j = dim - (job->dims - b_dims);
        const int64_t x = i < 0 ? 1 : PyArray_DIM(a, i), y = j < 0 ? 1 : PyArray_DIM(b, j);
        if (x != y && x != 1 && y != 1) return 0;
        job->shape[dim] = x == 1 ? y : x;
        job->a_stack[dim] = x == 1 ? 0 : PyArray_STRIDE(a, i);
        job->b_stack[dim] = y == 1 ? 0 : PyArray_STRIDE(b, j);
    }
    return 1;
}

/* A stack of rows that line up, times one matrix, is one tall product, as in PyTorch. */
static void fold_stack(Products *job) {
    int64_t rows = job->n;
    for (int dim = job->dims - 1; dim >= 0; rows *= job->shape[dim--])
        if (job->shape[dim] != 1 && job->a_stack[dim] != rows * job->a_row) return;
    if (job->a_column != job->size) return;
    job->n = rows, job->dims = 0;
}

/* Bits of `How` for a product of float32. */
static int few_of(const Products *job) {
    if (job->dims > 0 && job->n * job->k * job->m < NAIVE_WORK) return IS_FEW | IN_ORDER;
    return job->n < FEW_ROWS || job->m < FEW_COLUMNS ? IS_FEW : 0;
}

/* Sets all but what the result decides; 0 for what NumPy shall multiply: products with vectors, for
 * which it has better loops where PyTorch's order is not known, and empty ones. */
static int describe(Products *job, PyArrayObject *a, PyArrayObject *b, const Multiply *multiply) {
    const int a_dims = PyArray_NDIM(a), b_dims = PyArray_NDIM(b), type = PyArray_TYPE(a);
    if (a_dims < 2 || b_dims < 2 || a_dims > MOST_DIMS || b_dims > MOST_DIMS) return 0;
    if (type != PyArray_TYPE(b) || (type != NPY_FLOAT && type != NPY_DOUBLE)) return 0;
    job->multiply = multiply[type == NPY_DOUBLE];
    job->size = PyArray_ITEMSIZE(a);
    job->n = PyArray_DIM(a, a_dims - 2), job->k = PyArray_DIM(a, a_dims - 1);
    job->m = PyArray_DIM(b, b_dims - 1);
    if (job->n < 1 || job->m < 1 || job->k < 1 || job->k != PyArray_DIM(b, b_dims - 2)) return 0;
    if (!job->multiply || !is_readable(a) || !is_readable(b) || !find_stack(job, a, b)) return 0;
    job->a = PyArray_BYTES(a), job->b = PyArray_BYTES(b);
    job->a_row = PyArray_STRIDE(a, a_dims - 2), job->a_column = PyArray_STRIDE(a, a_dims - 1);
    job->b_row = PyArray_STRIDE(b, b_dims - 2), job->b_column = PyArray_STRIDE(b, b_dims - 1);
    if (b_dims == 2 && a_dims > 2) fold_stack(job);
    job->how = is_amd && type == NPY_FLOAT ? few_of(job) : 0;
    if ((job->n < 2 || job->m < 2) && (!job->how || job->dims > 0)) return 0;
    return 1;
}

/* -1 with an exception. */
static int threads_for(const Products *job, int64_t matrices) {
    const int64_t most = job->n == 1 || job->m == 1 ? VECTOR_WORK : SERIAL_WORK;
    if (matrices * job->n * job->k * job->m < most) return 1;
    PyObject *count = PyObject_CallNoArgs(count_threads);
    const long threads = count ? PyLong_AsLong(count) : -1;
    Py_XDECREF(count);
    return threads < 0 && PyErr_Occurred() ? -1 : threads < 1 ? 1 : (int)least(threads, 1 << 10);
}

/* Rows of the result begin as `start`. */
static void begin_with(Products *job, PyArrayObject *start) {
    const size_t bytes = (size_t)(job->m * job->size);
    for (int64_t row = 0; row < job->n; row++)
        memcpy(job->c + row * job->m * job->size, PyArray_BYTES(start), bytes);
    job->how |= ADDS;
}

/* Whether sums can begin with it: a row of the result. */
static int is_start(const Products *job, PyArrayObject *a, PyArrayObject *start) {
    return job->dims == 0 && PyArray_NDIM(start) == 1 && PyArray_DIM(start, 0) == job->m &&
           PyArray_TYPE(start) == PyArray_TYPE(a) && PyArray_ISCARRAY_RO(start);
}

/* a @ b, or NULL: without an exception it is NumPy's business. If there is a `start`, every row of
 * a matrix goes on from it. */
static PyObject *multiply_arrays(PyArrayObject *a, PyArrayObject *b, PyArrayObject *start,
                                 const Multiply *multiply) {
    Products job = {0};
    if (!describe(&job, a, b, multiply)) return NULL;
    if (start && !is_start(&job, a, start)) return NULL;
    npy_intp shape[MOST_DIMS];
    int64_t matrices = 1;
    const int a_dims = PyArray_NDIM(a), b_dims = PyArray_NDIM(b);
    const int dims = a_dims > b_dims ? a_dims : b_dims;
    for (int dim = 0; dim < dims - 2; dim++) shape[dim] = job.shape[dim];
    for (int dim = 0; dim < job.dims; dim++) matrices *= job.shape[dim];
    shape[dims - 2] = PyArray_DIM(a, a_dims - 2), shape[dims - 1] = job.m;
    const int threads = threads_for(&job, matrices);
    if (threads < 0) return NULL;
    PyObject *result = PyArray_EMPTY(dims, shape, PyArray_TYPE(a), 0);
    if (!result) return NULL;
    job.c = PyArray_BYTES((PyArrayObject *)result);
    if (start) begin_with(&job, start);
    job.by_columns = job.n < job.m;
    job.bands = matrices >= 2 * threads ? 1 : least(threads, job.by_columns ? job.m : job.n);
    job.units = matrices * job.bands;
    if (matrices * job.n * job.k * job.m <= QUIET_WORK) {
        multiply_alone(&job);
    }
    else {
        Py_BEGIN_ALLOW_THREADS
        run_together(multiply_unit, &job, job.units, threads);
        Py_END_ALLOW_THREADS
    }
    if (!atomic_load(&job.failed)) return result;
    Py_DECREF(result);
    return NULL;
}

/* The CUDA driver and cuBLASLt, looked up when they are first needed: no header and no library of
 * CUDA's is needed to build this. Handles are pointers, results are integers with 0 for success; the
 * enumerations used are below, with their values in cuda.h and cublasLt.h. */
#ifndef DYNAJIT_DEVICE_DRIVER_H
#define DYNAJIT_DEVICE_DRIVER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

typedef unsigned long long Address; /* CUdeviceptr */

enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2 };
enum { MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };       /* CU_FUNC_ATTRIBUTE_... */
enum { CAPTURE_MODE_RELAXED = 2 };                /* CU_STREAM_CAPTURE_MODE_... */
enum { CAPTURE_STATUS_NONE = 0 };                 /* CU_STREAM_CAPTURE_STATUS_... */
enum { STREAM_NON_BLOCKING = 1 };                 /* CU_STREAM_... */
enum { EVENT_DEFAULT = 0, EVENT_DISABLE_TIMING = 2 }; /* CU_EVENT_... */
enum { HOST_PORTABLE = 1 };                       /* CU_MEMHOSTALLOC_... */

/* CUDA_KERNEL_NODE_PARAMS_v1, as cuGraphExecKernelNodeSetParams takes it. */
typedef struct {
    void *function;
    unsigned grid[3], block[3], dynamic_bytes;
    void **parameters;
    void **extra;
} KernelNodeParameters;

/* field, symbol, parameters; where a header renames a function to a version, that version. */
#define DRIVER_FUNCTIONS(F)                                                                       \
    F(init, "cuInit", (unsigned flags))                                                           \
    F(driver_version, "cuDriverGetVersion", (int *version))                                       \
    F(device_count, "cuDeviceGetCount", (int *count))                                             \
    F(device_name, "cuDeviceGetName", (char *name, int length, int device))                       \
    F(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))          \
    F(context_retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                   \
    F(context_get, "cuCtxGetCurrent", (void **context))                                           \
    F(context_set, "cuCtxSetCurrent", (void *context))                                            \
    F(error_name, "cuGetErrorName", (int code, const char **name))                                \
    F(error_text, "cuGetErrorString", (int code, const char **text))                              \
    F(module_load, "cuModuleLoadData", (void **module, const void *image))                        \
    F(module_unload, "cuModuleUnload", (void *module))                                            \
    F(module_function, "cuModuleGetFunction", (void **function, void *module, const char *name))  \
    F(function_set, "cuFuncSetAttribute", (void *function, int attribute, int value))             \
    F(launch, "cuLaunchKernel",                                                                   \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,       \
       unsigned block_y, unsigned block_z, unsigned dynamic_bytes, void *stream,                  \
       void **parameters, void **extra))                                                          \
    F(device_allocate, "cuMemAlloc_v2", (Address *memory, size_t size))                           \
    F(device_free, "cuMemFree_v2", (Address memory))                                              \
    F(copy_to_host, "cuMemcpyDtoHAsync_v2",                                                       \
      (void *to, Address from, size_t count, void *stream))                                       \
    F(host_allocate, "cuMemHostAlloc", (void **memory, size_t size, unsigned flags))              \
    F(host_free, "cuMemFreeHost", (void *memory))                                                 \
    F(memset_bytes, "cuMemsetD8Async",                                                            \
      (Address to, unsigned char value, size_t count, void *stream))                              \
    F(stream_create, "cuStreamCreate", (void **stream, unsigned flags))                           \
    F(stream_destroy, "cuStreamDestroy_v2", (void *stream))                                       \
    F(stream_synchronize, "cuStreamSynchronize", (void *stream))                                  \
    F(stream_is_capturing, "cuStreamIsCapturing", (void *stream, int *status))                    \
    F(capture_begin, "cuStreamBeginCapture_v2", (void *stream, int mode))                         \
    F(capture_end, "cuStreamEndCapture", (void *stream, void **graph))                            \
    F(capture_info, "cuStreamGetCaptureInfo_v2",                                                  \
      (void *stream, int *status, uint64_t *id, void **graph, void *const **nodes,                \
       size_t *count))                                                                            \
    F(event_create, "cuEventCreate", (void **event, unsigned flags))                              \
    F(event_destroy, "cuEventDestroy_v2", (void *event))                                          \
    F(event_record, "cuEventRecord", (void *event, void *stream))                                 \
    F(event_synchronize, "cuEventSynchronize", (void *event))                                     \
    F(event_elapsed, "cuEventElapsedTime", (float *milliseconds, void *start, void *end))         \
    F(graph_instantiate, "cuGraphInstantiateWithFlags",                                           \
      (void **executable, void *graph, unsigned long long flags))                                 \
    F(graph_launch, "cuGraphLaunch", (void *executable, void *stream))                            \
    F(graph_set_kernel, "cuGraphExecKernelNodeSetParams",                                         \
      (void *executable, void *node, const KernelNodeParameters *parameters))                     \
    F(graph_destroy, "cuGraphDestroy", (void *graph))                                             \
    F(graph_exec_destroy, "cuGraphExecDestroy", (void *executable))

#define DECLARE_FUNCTION(field, symbol, parameters) int(*field) parameters;

typedef struct {
    DRIVER_FUNCTIONS(DECLARE_FUNCTION)
} DriverFunctions;

/* ---- cuBLASLt ---- */

enum { DATA_F32 = 0, DATA_F64 = 1, DATA_F16 = 2, DATA_BF16 = 14 }; /* CUDA_R_... */
enum { COMPUTE_F32 = 68, COMPUTE_F64 = 70, COMPUTE_TF32 = 77 };    /* CUBLAS_COMPUTE_... */
enum { EPILOGUE_DEFAULT = 1, EPILOGUE_BIAS = 4 };
enum { DESC_TRANSPOSE_A = 3, DESC_TRANSPOSE_B = 4, DESC_EPILOGUE = 7, DESC_BIAS_POINTER = 8,
       DESC_BIAS_TYPE = 26 };
enum { LAYOUT_BATCH_COUNT = 5, LAYOUT_BATCH_STRIDE = 6 };
enum { PREFERENCE_WORKSPACE = 1, PREFERENCE_REDUCTIONS = 3, PREFERENCE_ALIGNMENT_A = 5,
       PREFERENCE_ALIGNMENT_B = 6, PREFERENCE_ALIGNMENT_C = 7, PREFERENCE_ALIGNMENT_D = 8 };
enum { REDUCTIONS_IN_COMPUTE_TYPE = 3 }; /* in place, or in the compute type */

typedef struct {
    uint64_t algorithm[8];
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} Heuristic; /* cublasLtMatmulHeuristicResult_t */

#define PRODUCT_FUNCTIONS(F)                                                                      \
    F(create, "cublasLtCreate", (void **handle))                                                  \
    F(desc_create, "cublasLtMatmulDescCreate", (void **desc, int compute, int scale))             \
    F(desc_destroy, "cublasLtMatmulDescDestroy", (void *desc))                                    \
    F(desc_set, "cublasLtMatmulDescSetAttribute",                                                 \
      (void *desc, int attribute, const void *value, size_t size))                                \
    F(layout_create, "cublasLtMatrixLayoutCreate",                                                \
      (void **layout, int type, uint64_t rows, uint64_t columns, int64_t leading))                \
    F(layout_destroy, "cublasLtMatrixLayoutDestroy", (void *layout))                              \
    F(layout_set, "cublasLtMatrixLayoutSetAttribute",                                             \
      (void *layout, int attribute, const void *value, size_t size))                              \
    F(preference_create, "cublasLtMatmulPreferenceCreate", (void **preference))                   \
    F(preference_destroy, "cublasLtMatmulPreferenceDestroy", (void *preference))                  \
    F(preference_set, "cublasLtMatmulPreferenceSetAttribute",                                     \
      (void *preference, int attribute, const void *value, size_t size))                          \
    F(heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,            \
       int wanted, Heuristic *results, int *found))                                               \
    F(matmul, "cublasLtMatmul",                                                                   \
      (void *handle, void *desc, const void *alpha, const void *a, void *layout_a,                \
       const void *b, void *layout_b, const void *beta, const void *c, void *layout_c, void *d,   \
       void *layout_d, const uint64_t *algorithm, void *workspace, size_t workspace_bytes,        \
       void *stream))

typedef struct {
    PRODUCT_FUNCTIONS(DECLARE_FUNCTION)
} ProductFunctions;

/* ---- objects ---- */

/* Mutable: contexts and handles are made when they are first needed. Guarded by the GIL. */
typedef struct {
    PyObject_HEAD
    void *library, *products_library;
    DriverFunctions call;
    ProductFunctions products; /* NULL without the library */
    int version, count;        /* of the driver; of devices */
    void **contexts;           /* by device: the primary contexts, which CuPy works in */
    void **handles;            /* by device: of cuBLASLt */
    PyObject *fail;            /* callable(call, code, name, text) that raises */
} DriverObject;

/* A loaded image. */
typedef struct {
    PyObject_HEAD
    DriverObject *driver;
    void *module;
    int device;
} ModuleObject;

extern PyTypeObject Driver_Type, Module_Type;

/* The process was forked after the driver was used: it works in the parent only. */
extern int device_is_forked;

/* Python's exception for a call that failed; -1. */
int driver_failed(DriverObject *driver, const char *call, int code);

/* The same for cuBLASLt. */
int products_failed(DriverObject *driver, const char *call, int code);

/* Make a device's primary context that of this thread; -1 with an exception if that fails. */
int driver_enter(DriverObject *driver, int device);

/* Whether it is already; never raises. */
int driver_is_in(DriverObject *driver, int device);

/* Once per process; -1 if there is no memory. */
int driver_prepare(void);

/* Make a device's context current for a while, in destructors: nothing is raised. */
void *driver_visit(DriverObject *driver, int device);
void driver_return(DriverObject *driver, void *before);

/* The handle of cuBLASLt for a device whose context is current; NULL with an exception. */
void *driver_products(DriverObject *driver, int device);

#endif

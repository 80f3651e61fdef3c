// The part of cuBLASLt that codegen/_device.c calls, included by driver.cpp: column-major products of
// strided batches, with bias and activation, one element after the other.
//
// Sums are made in double and rounded once; TF32 drops the bits that a GPU would. Descriptions that
// the library would refuse are refused.
namespace {

enum LtStatus { LT_SUCCESS = 0, LT_INVALID_VALUE = 7, LT_NOT_SUPPORTED = 15 };
enum DataType { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };
enum Compute { COMPUTE_32F = 68, COMPUTE_32F_FAST_TF32 = 77, COMPUTE_64F = 70 };

struct MatmulDesc {
    int compute, scale;
    int32_t transpose[2] = {0, 0};
    uint32_t epilogue = 1;
    const void *bias = nullptr;
    int32_t bias_type = -1;
};

struct Layout {
    int type;
    uint64_t rows, columns;
    int64_t leading;
    int32_t batch = 1;
    int64_t batch_stride = 0;
};

struct Preference {
    uint64_t workspace = 0;
};

struct Heuristic {
    uint64_t algorithm[8];
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
};

size_t element_size(int type) { return type == F64 ? 8 : type == F32 ? 4 : 2; }

float half_to_float(uint16_t bits) {
    _Float16 value;
    memcpy(&value, &bits, 2);
    return float(value);
}

float bfloat_to_float(uint16_t bits) {
    uint32_t wide = uint32_t(bits) << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

uint16_t float_to_bfloat(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (value != value) return 0x7fc0;
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double read_element(const void *from, int type, int64_t at) {
    switch (type) {
    case F64: return ((const double *)from)[at];
    case F32: return ((const float *)from)[at];
    case F16: return half_to_float(((const uint16_t *)from)[at]);
    default: return bfloat_to_float(((const uint16_t *)from)[at]);
    }
}

void write_element(void *to, int type, int64_t at, double value) {
    switch (type) {
    case F64: ((double *)to)[at] = value; break;
    case F32: ((float *)to)[at] = float(value); break;
    case F16: {
        _Float16 half = (_Float16)float(value);
        memcpy((uint16_t *)to + at, &half, 2);
        break;
    }
    default: ((uint16_t *)to)[at] = float_to_bfloat(float(value));
    }
}

/* A float32 with the ten bits of mantissa that TF32 has. */
double as_tf32(double value) {
    float narrow = float(value);
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    if (value == value && !isinf(narrow)) bits = (bits + 0x0fff + (bits >> 13 & 1)) & ~0x1fffu;
    memcpy(&narrow, &bits, 4);
    return narrow;
}

double activated(double value, uint32_t epilogue) {
    if (epilogue & 2) return value > 0 || value != value ? value : 0;
    if (epilogue & 32)
        return 0.5 * value * (1 + tanh(0.7978845608028654 * (value + 0.044715 * value * value * value)));
    return value;
}

/* Elements from the first to the last that a layout reaches. */
size_t reach(const Layout &layout) {
    if (!layout.rows || !layout.columns) return 0;
    return size_t((layout.batch - 1) * layout.batch_stride + (layout.columns - 1) * layout.leading +
                  layout.rows);
}

bool agree(const MatmulDesc &desc, const Layout &a, const Layout &b, const Layout &c) {
    uint64_t inner = desc.transpose[0] ? a.rows : a.columns;
    uint64_t other = desc.transpose[1] ? b.columns : b.rows;
    uint64_t rows = desc.transpose[0] ? a.columns : a.rows;
    uint64_t columns = desc.transpose[1] ? b.rows : b.columns;
    bool is_double = desc.compute == COMPUTE_64F;
    return inner == other && rows == c.rows && columns == c.columns && a.type == b.type &&
           a.leading >= int64_t(a.rows) && b.leading >= int64_t(b.rows) &&
           c.leading >= int64_t(c.rows) && a.batch == c.batch && b.batch == c.batch &&
           (a.type == F64) == is_double && (c.type == a.type || (!is_double && c.type == F32)) &&
           desc.scale == (is_double ? F64 : F32) &&
           (desc.compute != COMPUTE_32F_FAST_TF32 || a.type == F32);
}

void multiply(const MatmulDesc &desc, double alpha, double beta, const void *a, const Layout &la,
              const void *b, const Layout &lb, const void *c, void *d, const Layout &ld) {
    uint64_t inner = desc.transpose[0] ? la.rows : la.columns;
    bool narrows = desc.compute == COMPUTE_32F_FAST_TF32;
    for (int64_t batch = 0; batch < ld.batch; batch++)
        for (uint64_t row = 0; row < ld.rows; row++)
            for (uint64_t column = 0; column < ld.columns; column++) {
                double total = 0;
                for (uint64_t k = 0; k < inner; k++) {
                    int64_t at_a = desc.transpose[0] ? k + row * la.leading : row + k * la.leading;
                    int64_t at_b =
                        desc.transpose[1] ? column + k * lb.leading : k + column * lb.leading;
                    double x = read_element(a, la.type, at_a + batch * la.batch_stride);
                    double y = read_element(b, lb.type, at_b + batch * lb.batch_stride);
                    total += narrows ? as_tf32(x) * as_tf32(y) : x * y;
                }
                int64_t at = row + column * ld.leading + batch * ld.batch_stride;
                total *= alpha;
                if (beta != 0) total += beta * read_element(c, ld.type, at);
                if (desc.epilogue & 4) total += read_element(desc.bias, desc.bias_type, row);
                write_element(d, ld.type, at, activated(total, desc.epilogue));
            }
}

}  // namespace

extern "C" {

int cublasLtCreate(void **handle) {
    LOCKED;
    if (!current) return LT_INVALID_VALUE;
    *handle = current;
    return LT_SUCCESS;
}

int cublasLtDestroy(void *) { return LT_SUCCESS; }

size_t cublasLtGetVersion() { return 130000; }

const char *cublasLtGetStatusString(int status) {
    return status == LT_NOT_SUPPORTED ? "the functionality requested is not supported"
                                      : "an unsupported value or parameter was passed";
}

int cublasLtMatmulDescCreate(void **desc, int compute, int scale) {
    *desc = new MatmulDesc{compute, scale};
    return LT_SUCCESS;
}

int cublasLtMatmulDescDestroy(void *desc) {
    delete (MatmulDesc *)desc;
    return LT_SUCCESS;
}

int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t size) {
    auto own = (MatmulDesc *)desc;
    void *field = attribute == 3    ? (void *)&own->transpose[0]
                  : attribute == 4  ? (void *)&own->transpose[1]
                  : attribute == 7  ? (void *)&own->epilogue
                  : attribute == 8  ? (void *)&own->bias
                  : attribute == 26 ? (void *)&own->bias_type
                                    : nullptr;
    if (!field || size != (attribute == 8 ? 8u : 4u)) return LT_INVALID_VALUE;
    memcpy(field, value, size);
    return LT_SUCCESS;
}

int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns,
                               int64_t leading) {
    if (!rows || !columns) return LT_INVALID_VALUE;
    *layout = new Layout{type, rows, columns, leading};
    return LT_SUCCESS;
}

int cublasLtMatrixLayoutDestroy(void *layout) {
    delete (Layout *)layout;
    return LT_SUCCESS;
}

int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t size) {
    auto own = (Layout *)layout;
    if (attribute == 5 && size == 4) memcpy(&own->batch, value, 4);
    else if (attribute == 6 && size == 8) memcpy(&own->batch_stride, value, 8);
    else return LT_INVALID_VALUE;
    return LT_SUCCESS;
}

int cublasLtMatmulPreferenceCreate(void **preference) {
    *preference = new Preference;
    return LT_SUCCESS;
}

int cublasLtMatmulPreferenceDestroy(void *preference) {
    delete (Preference *)preference;
    return LT_SUCCESS;
}

int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value,
                                         size_t) {
    if (attribute == 1) memcpy(&((Preference *)preference)->workspace, value, 8);
    return LT_SUCCESS;
}

/* Three algorithms that compute the same; the second needs workspace. */
int cublasLtMatmulAlgoGetHeuristic(void *, void *desc, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, void *results, int *found) {
    *found = 0;
    if (!agree(*(MatmulDesc *)desc, *(Layout *)a, *(Layout *)b, *(Layout *)d) || c != d)
        return LT_NOT_SUPPORTED;
    auto list = (Heuristic *)results;
    for (int i = 0; i < wanted && i < 3; i++) {
        size_t workspace = i == 1 ? 4096 : 0;
        if (workspace > ((Preference *)preference)->workspace) continue;
        memset(&list[*found], 0, sizeof *list);
        list[*found].algorithm[0] = 1 + i;
        list[(*found)++].workspace = workspace;
    }
    return LT_SUCCESS;
}

int cublasLtMatmul(void *, void *desc, const void *alpha, const void *a, void *la, const void *b,
                   void *lb, const void *beta, const void *c, void *, void *d, void *ld,
                   const void *algorithm, void *workspace, size_t workspace_bytes, void *stream) {
    LOCKED;
    calls[__func__]++;
    auto own = *(MatmulDesc *)desc;
    Layout left = *(Layout *)la, right = *(Layout *)lb, result = *(Layout *)ld;
    if (!agree(own, left, right, result) || !algorithm) return LT_INVALID_VALUE;
    uint64_t number = *(const uint64_t *)algorithm;
    if (number < 1 || number > 3 || (number == 2 && (workspace_bytes < 4096 || !workspace)))
        return LT_INVALID_VALUE;
    if ((own.epilogue & 4) && own.bias_type < 0) own.bias_type = result.type;
    double factor = own.scale == F64 ? *(const double *)alpha : *(const float *)alpha;
    double kept = own.scale == F64 ? *(const double *)beta : *(const float *)beta;
    int code = give(stream, [=] {
        if (checks && !(is_living((uintptr_t)a, reach(left) * element_size(left.type)) &&
                        is_living((uintptr_t)b, reach(right) * element_size(right.type)) &&
                        is_living((uintptr_t)d, reach(result) * element_size(result.type)) &&
                        (number != 2 || is_living((uintptr_t)workspace, 4096))))
            return complain("a product reads or writes outside of living memory");
        if (number == 2) memset(workspace, 0x77, 4096);
        multiply(own, factor, kept, a, left, b, right, c, d, result);
        check_borders("a product");
    });
    return code ? LT_INVALID_VALUE : LT_SUCCESS;
}

}  // extern "C"

/* Positions along a dim in order, of generated C: all of a row's (a sort), or the first of them.
 *
 * Included once per dtype, with defined: T; DJ_OF(name), the name with the dtype's suffix; DJ_KEY, the
 * function below that gives the key of an element; DJ_KEYS, the type of keys; DJ_PLACE, the unsigned
 * type of twice its width. A place is a key and, in its low half, the element's position: no two
 * places of a row are equal, so places in order are the stable order of the elements, and the result
 * depends neither on the method nor on the number of threads. Equal elements have equal keys (all
 * NaNs, both zeros); NaN is the largest.
 */

#ifndef DJ_ORDER_BLOCK
#ifdef _OPENMP
int omp_get_thread_num(void);
#define DJ_ORDER_MEMBER omp_get_thread_num()
#else
#define DJ_ORDER_MEMBER 0
#endif

#define DJ_ORDER_BLOCK 64         /* elements that are compared with the last place at once */
#define DJ_ORDER_WORK (1 << 15)   /* elements that are worth a team */
#define DJ_ORDER_PART (1 << 14)   /* elements of a part of a row, at least */
#define DJ_ORDER_PIECE (1 << 12)  /* elements that a thread takes at once, at least */
#define DJ_ORDER_FEW 24           /* places that are inserted into each other */
#define DJ_ORDER_DIGITS (1 << 8) /* places that are sorted byte by byte, at least */
#define DJ_ORDER_LANES 16         /* neighbouring rows that are read together where they interleave */
#define DJ_ORDER_DIMS 16

/* Args: elements of a row; which places of its order are wanted, from `start` to before `stop`; distance
 * of a row's elements, offset of the first one; distance of a row's results; sizes and strides of
 * the other dims. */
typedef struct {
    int64_t size, start, stop, step, offset, inner, dims;
    int64_t sizes[DJ_ORDER_DIMS], strides[DJ_ORDER_DIMS];
    int is_descending;
} dj_order;

/* Sign and magnitude as a whole number: source IEEE 754, whose magnitudes are ordered like integers. */
DJ_INLINE int32_t dj_key_f32(float x) {
    const uint32_t bits = dj_bits_of_f32(x);
    const int32_t size = (int32_t)(bits & 0x7fffffffu), key = bits >> 31 ? -size : size;
    return size > 0x7f800000 ? INT32_MAX : key;
}

DJ_INLINE int64_t dj_key_f64(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int64_t size = (int64_t)(bits & INT64_MAX), key = bits >> 63 ? -size : size;
    return size > INT64_C(0x7ff0000000000000) ? INT64_MAX : key;
}

DJ_INLINE int32_t dj_key_f16(dj_half x) {
    const int32_t size = x & 0x7fff, key = x >> 15 ? -size : size;
    return size > 0x7c00 ? INT32_MAX : key;
}

DJ_INLINE int32_t dj_key_bf16(dj_bfloat x) {
    const int32_t size = x & 0x7fff, key = x >> 15 ? -size : size;
    return size > 0x7f80 ? INT32_MAX : key;
}

DJ_INLINE int32_t dj_key_whole(int32_t x) { return x; }
DJ_INLINE int64_t dj_key_long(int64_t x) { return x; }

/* Where a row begins. */
static DJ_ONCE int64_t dj_order_start(const dj_order *c, int64_t row) {
    int64_t at = c->offset;
    for (int64_t d = c->dims - 1; d >= 0; d--) {
        at += row % c->sizes[d] * c->strides[d];
        row /= c->sizes[d];
    }
    return at;
}

/* A position below `count`. Source: D. Knuth's linear congruential generator MMIX. */
DJ_INLINE int64_t dj_order_draw(uint64_t *state, int64_t count) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((unsigned __int128)*state * (uint64_t)count >> 64);
}
#endif

enum { DJ_OF(DJ_HALF) = 4 * sizeof(DJ_PLACE) }; /* bits of a position, and of a key */

DJ_INLINE DJ_PLACE DJ_OF(dj_place)(DJ_KEYS key, int64_t position) {
    const DJ_PLACE lifted = (DJ_PLACE)key + ((DJ_PLACE)1 << (DJ_OF(DJ_HALF) - 1)); /* of 0 or more */
    return lifted << DJ_OF(DJ_HALF) | (DJ_PLACE)position;
}

DJ_INLINE DJ_KEYS DJ_OF(dj_key_of)(DJ_PLACE place) {
    return (DJ_KEYS)((place >> DJ_OF(DJ_HALF)) - ((DJ_PLACE)1 << (DJ_OF(DJ_HALF) - 1)));
}

DJ_INLINE int64_t DJ_OF(dj_position_of)(DJ_PLACE place) {
    return (int64_t)(place & (((DJ_PLACE)1 << DJ_OF(DJ_HALF)) - 1));
}

static DJ_ONCE void DJ_OF(dj_insert)(DJ_PLACE *a, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        const DJ_PLACE place = a[i];
        int64_t j = i;
        for (; j && a[j - 1] > place; j--) a[j] = a[j - 1];
        a[j] = place;
    }
}

/* Smaller places than a drawn one in front, larger ones behind it; its index. The drawn one is the median
 * of three, so that no arrangement of the elements is slow but by bad luck. */
static DJ_ONCE int64_t DJ_OF(dj_split)(DJ_PLACE *a, int64_t n, uint64_t *state) {
    const int64_t p = dj_order_draw(state, n), q = dj_order_draw(state, n);
    const int64_t r = dj_order_draw(state, n);
    const int64_t low = a[p] < a[q] ? p : q, high = a[p] < a[q] ? q : p;
    const int64_t middle = a[r] < a[low] ? low : a[r] < a[high] ? r : high;
    const DJ_PLACE pivot = a[middle];
    a[middle] = a[n - 1];
    int64_t smaller = 0;
    for (int64_t i = 0; i < n - 1; i++) { /* without a branch: it would be foreseen half of the time */
        const DJ_PLACE place = a[i];
        a[i] = a[smaller];
        a[smaller] = place;
        smaller += place < pivot;
    }
    a[n - 1] = a[smaller];
    a[smaller] = pivot;
    return smaller;
}

/* The `count` smallest places in front. Source: C. A. R. Hoare, "Algorithm 65: find", 1961. */
static DJ_ONCE void DJ_OF(dj_select)(DJ_PLACE *a, int64_t n, int64_t count) {
    uint64_t state = (uint64_t)n;
    while (n > DJ_ORDER_FEW) {
        const int64_t middle = DJ_OF(dj_split)(a, n, &state);
        if (middle == count || middle + 1 == count) return;
        if (middle < count) a += middle + 1, n -= middle + 1, count -= middle + 1;
        else n = middle;
    }
    DJ_OF(dj_insert)(a, n);
}

static DJ_ONCE void DJ_OF(dj_quicksort)(DJ_PLACE *a, int64_t n, uint64_t *state) {
    while (n > DJ_ORDER_FEW) {
        const int64_t middle = DJ_OF(dj_split)(a, n, state), rest = n - middle - 1;
        DJ_PLACE *const behind = a + middle + 1;
        if (middle < rest) {
            DJ_OF(dj_quicksort)(a, middle, state);
            a = behind, n = rest;
        } else {
            DJ_OF(dj_quicksort)(behind, rest, state);
            n = middle;
        }
    }
    DJ_OF(dj_insert)(a, n);
}

/* Places by their bytes from the given one on, the lowest first; where they are then: `a` or `spare`. */
static DJ_ONCE DJ_PLACE *DJ_OF(dj_by_digits)(DJ_PLACE *a, DJ_PLACE *spare, int64_t n, int first) {
    enum { BYTES = sizeof(DJ_PLACE) };
    int64_t counts[BYTES][256];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < BYTES; b++) counts[b][(int)(a[i] >> 8 * b) & 255]++;
    for (int b = first; b < BYTES; b++) {
        if (counts[b][(int)(a[0] >> 8 * b) & 255] == n) continue;
        int64_t before = 0;
        for (int digit = 0; digit < 256; digit++) {
            const int64_t here = counts[b][digit];
            counts[b][digit] = before;
            before += here;
        }
        for (int64_t i = 0; i < n; i++) {
            const DJ_PLACE place = a[i];
            spare[counts[b][(int)(place >> 8 * b) & 255]++] = place;
        }
        DJ_PLACE *const sorted = spare;
        spare = a, a = sorted;
    }
    return a;
}

/* Keys of a block; whether any of them may be among the first. */
DJ_INLINE int DJ_OF(dj_keys)(const T *x, int64_t step, int64_t here, DJ_KEYS flip, DJ_KEYS limit,
                             DJ_KEYS *keys) {
    DJ_KEYS any = 0;
    for (int64_t i = 0; i < here; i++) {
        const DJ_KEYS key = DJ_KEY(x[i * step]) ^ flip;
        keys[i] = key;
        any |= -(DJ_KEYS)(key <= limit);
    }
    return any != 0;
}

/* The places of the elements [from, to) of a row in `found`, in the order of the row, where all are
 * wanted; else at least the first `stop`, in any order. Returns how many are there. There is room for
 * `room` places and a block. */
static DJ_ONCE int64_t DJ_OF(dj_collect)(const dj_order *c, const T *x, int64_t step, int64_t from,
                                         int64_t to, int64_t room, DJ_PLACE *found) {
    const DJ_KEYS flip = c->is_descending ? -1 : 0; /* ~key: the other direction */
    DJ_KEYS limit = (DJ_KEYS)(((DJ_PLACE)1 << (DJ_OF(DJ_HALF) - 1)) - 1);
    const DJ_KEYS least = -limit - 1;
    int64_t held = 0;
    for (int64_t at = from; at < to; at += DJ_ORDER_BLOCK) {
        DJ_KEYS keys[DJ_ORDER_BLOCK];
        const int64_t here = dj_min_index(DJ_ORDER_BLOCK, to - at);
        const int any = step == 1 && here == DJ_ORDER_BLOCK
                            ? DJ_OF(dj_keys)(x + at, 1, DJ_ORDER_BLOCK, flip, limit, keys)
                            : DJ_OF(dj_keys)(x + at * step, step, here, flip, limit, keys);
        if (!any) continue;
        for (int64_t i = 0; i < here; i++) {
            found[held] = DJ_OF(dj_place)(keys[i], at + i);
            held += keys[i] <= limit;
        }
        if (held < room) continue;
        DJ_OF(dj_select)(found, held, c->stop);
        held = c->stop;
        DJ_PLACE last = found[0];
        for (int64_t i = 1; i < held; i++) last = found[i] > last ? found[i] : last;
        /* Equal elements that come later stay behind. */
        if (DJ_OF(dj_key_of)(last) == least) break;
        limit = DJ_OF(dj_key_of)(last) - 1;
    }
    return held;
}

/* The wanted positions in order. `spare`: room for as many places, from DJ_ORDER_DIGITS on. */
static DJ_ONCE void DJ_OF(dj_put)(const dj_order *c, DJ_PLACE *found, int64_t held, DJ_PLACE *spare,
                                  int64_t *result) {
    const int64_t count = c->stop - c->start;
    const int is_whole = count == c->size; /* found in the order of the row */
    uint64_t state = (uint64_t)held;
    if (held > c->stop) DJ_OF(dj_select)(found, held, c->stop);
    if (c->start) DJ_OF(dj_select)(found, c->stop, c->start);
    found += c->start;
    if (count < DJ_ORDER_DIGITS) DJ_OF(dj_quicksort)(found, count, &state);
    else found = DJ_OF(dj_by_digits)(found, spare, count, is_whole ? DJ_OF(DJ_HALF) / 8 : 0);
    for (int64_t i = 0; i < count; i++) result[i * c->inner] = DJ_OF(dj_position_of)(found[i]);
}

static DJ_ONCE void DJ_OF(dj_argsort)(const dj_order *c, const T *x, int64_t *result, int threads,
                                      int64_t *status) {
    const int64_t n = c->size, count = c->stop - c->start;
    int64_t rows = 1;
    for (int64_t d = 0; d < c->dims; d++) rows *= c->sizes[d];
    if (rows == 0 || count == 0) return;
    if (sizeof(DJ_PLACE) == 8 && n > UINT32_MAX) { status[0] = 3; return; }
    const int team = rows * n >= DJ_ORDER_WORK ? threads : 1;
    /* A part of a row has more elements than are wanted, so that putting parts together is little. */
    const int64_t fit = dj_min_index(n / DJ_ORDER_PART, n / (4 * c->stop));
    const int64_t parts = rows < team ? dj_max_index(dj_min_index(team, fit), 1) : 1;
    const int64_t lanes = c->step != 1 && parts == 1 && n > 1 ? DJ_ORDER_LANES : 1;
    const int64_t tasks = (rows + lanes - 1) / lanes * parts;
    /* What all fit into is never cut down. */
    const int64_t room = dj_min_index(c->stop + dj_max_index(c->stop, DJ_ORDER_BLOCK), n + 1);
    const int64_t own = room + DJ_ORDER_BLOCK, spare = count < DJ_ORDER_DIGITS ? 0 : count;
    const int64_t places = parts > 1 ? tasks * own + spare : (own + spare) * team;
    const int64_t copy = lanes > 1 ? lanes * n : 0;
    DJ_PLACE *memory = malloc((size_t)places * sizeof(DJ_PLACE) + (size_t)(copy * team) * sizeof(T) +
                              (size_t)tasks * sizeof(int64_t));
    if (!memory) { status[0] = 3; return; }
    int64_t *held = (int64_t *)(memory + places);
    T *copies = (T *)(held + tasks);
    const int64_t together = dj_max_index(DJ_ORDER_PIECE / (lanes * n), 1);
#pragma omp parallel for schedule(dynamic, together) num_threads(team)
    for (int64_t task = 0; task < tasks; task++) {
        if (parts > 1) {
            const int64_t row = task / parts, part = task % parts;
            const T *from = x + dj_order_start(c, row);
            held[task] = DJ_OF(dj_collect)(c, from, c->step, n * part / parts, n * (part + 1) / parts,
                                           room, memory + task * own);
            continue;
        }
        DJ_PLACE *found = memory + (own + spare) * DJ_ORDER_MEMBER;
        T *rows_here = copies + copy * DJ_ORDER_MEMBER;
        const int64_t first = task * lanes, here = dj_min_index(lanes, rows - first);
        const T *starts[DJ_ORDER_LANES];
        for (int64_t l = 0; l < here; l++) starts[l] = x + dj_order_start(c, first + l);
        if (lanes > 1)
            for (int64_t i = 0; i < n; i++)
                for (int64_t l = 0; l < here; l++) rows_here[l * n + i] = starts[l][i * c->step];
        for (int64_t l = 0; l < here; l++) {
            const T *row = lanes > 1 ? rows_here + l * n : starts[l];
            const int64_t number = first + l, got = DJ_OF(dj_collect)(c, row, 1, 0, n, room, found);
            int64_t *to = result + number / c->inner * c->inner * count + number % c->inner;
            DJ_OF(dj_put)(c, found, got, found + own, to);
        }
    }
    for (int64_t row = 0; parts > 1 && row < rows; row++) {
        DJ_PLACE *all = memory + row * parts * own;
        int64_t got = 0;
        for (int64_t part = 0; part < parts; part++) {
            memmove(all + got, all + part * own, (size_t)held[row * parts + part] * sizeof(DJ_PLACE));
            got += held[row * parts + part];
        }
        DJ_OF(dj_put)(c, all, got, memory + tasks * own,
                      result + row / c->inner * c->inner * count + row % c->inner);
    }
    free(memory);
}

/* Pools of CUDA units: a thread for each element of the result.
 *
 * Windows are read where they lie; neighbouring threads have neighbouring windows. Values that are put
 * back are gathered: each element looks at the windows that it is in, in the order in which they
 * would be added one after the other. All dims are three; pools over fewer have leading ones.
 */

struct dj_pool {
    int64_t planes;
    int64_t in[3], out[3], size[3], stride[3], before[3], dilation[3];
};

DJ_INLINE int64_t dj_area(const int64_t *d) { return d[0] * d[1] * d[2]; }

DJ_INLINE void dj_place_of(int64_t index, const int64_t *sizes, int64_t *place) {
    place[2] = index % sizes[2];
    place[1] = index / sizes[2] % sizes[1];
    place[0] = index / sizes[2] / sizes[1];
}

/* The first element along a dim of the window at `out` that lies inside: what is chosen where all
 * elements are -inf. */
DJ_INLINE int64_t dj_first_inside(const dj_pool &c, int dim, int64_t out) {
    const int64_t missing = c.before[dim] - out * c.stride[dim], gap = c.dilation[dim];
    return missing <= 0 ? 0 : dj_min_index((missing + gap - 1) / gap, c.size[dim] - 1);
}

/* Maximum (and which element it is) or sum of each window; results may be left out. */
template <bool IS_SUM, typename T>
DJ_INLINE void dj_pool_windows(const dj_pool &c, const T *x, T *value, int64_t *chosen) {
    typedef typename dj_wide<T>::type R;
    const int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= c.planes * dj_area(c.out)) return;
    int64_t place[3], choice = 0, tap = 0;
    dj_place_of(index % dj_area(c.out), c.out, place);
    for (int d = 0; d < 3; d++) choice = choice * c.size[d] + dj_first_inside(c, d, place[d]);
    x += index / dj_area(c.out) * dj_area(c.in);
    R best = IS_SUM ? (R)0 : (R)-INFINITY;
#pragma unroll 4
    for (tap = 0; tap < dj_area(c.size); tap++) {
        int64_t step[3], at[3];
        dj_place_of(tap, c.size, step);
        bool is_in = true;
        for (int d = 0; d < 3; d++) {
            at[d] = place[d] * c.stride[d] - c.before[d] + step[d] * c.dilation[d];
            is_in = is_in && at[d] >= 0 && at[d] < c.in[d];
        }
        if (!is_in) continue;
        const R v = dj_widened(x[(at[0] * c.in[1] + at[1]) * c.in[2] + at[2]]);
        if (IS_SUM) {
            best += v;
        } else if (v > best || (v != v && best == best)) { /* the first NaN wins */
            best = v;
            choice = tap;
        }
    }
    if (value) dj_narrow_to(value + index, best);
    if (chosen) chosen[index] = choice;
}

/* Each value where its choice lies; choices outside of the plane have no place. */
template <typename T>
DJ_INLINE void dj_place_windows(const dj_pool &c, const T *value, const int64_t *chosen,
                                T *result) {
    typedef typename dj_wide<T>::type R;
    const int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= c.planes * dj_area(c.in)) return;
    int64_t place[3];
    dj_place_of(index % dj_area(c.in), c.in, place);
    const int64_t first = index / dj_area(c.in) * dj_area(c.out);
    R sum = 0;
#pragma unroll 4
    for (int64_t tap = dj_area(c.size) - 1; tap >= 0; tap--) {
        int64_t step[3], window[3];
        dj_place_of(tap, c.size, step);
        bool is_in = true;
        for (int d = 0; d < 3; d++) {
            const int64_t reach = place[d] + c.before[d] - step[d] * c.dilation[d];
            window[d] = reach / c.stride[d];
            is_in = is_in && reach >= 0 && window[d] * c.stride[d] == reach && window[d] < c.out[d];
        }
        if (!is_in) continue;
        const int64_t at = first + (window[0] * c.out[1] + window[1]) * c.out[2] + window[2];
        if (chosen[at] == tap) sum += dj_widened(value[at]);
    }
    dj_narrow_to(result + index, sum);
}

/* Random numbers, drawn as NumPy and Python draw them, to the bit, from a state that is an array of
 * int64: see `capture/values/generator_states.py`, which reads and writes the generators' own. */

#define DJ_GENERATOR 0 /* one of the DJ_OF_... */
#define DJ_HAS_SPARE 1 /* whether DJ_SPARE is the upper half of a number whose lower half was given */
#define DJ_SPARE 2
#define DJ_HAS_NORMAL 3 /* whether DJ_NORMAL has the bits of the second of two numbers */
#define DJ_NORMAL 4
#define DJ_AT 5 /* how many numbers of the buffer were given */
#define DJ_WORDS 6 /* the first word of what the generator itself has */

#define DJ_OF_MT19937 0
#define DJ_OF_PCG64 1
#define DJ_OF_PCG64DXSM 2
#define DJ_OF_PHILOX 3
#define DJ_OF_SFC64 4

#define DJ_TWISTED 624 /* words of a Mersenne twister */

#define DJ_APART 397 /* how far the words lie from each other that are mixed */

DJ_INLINE int64_t dj_twisted(int64_t word, int64_t next, int64_t other) {
    uint32_t joined = ((uint32_t)word & 0x80000000u) | ((uint32_t)next & 0x7fffffffu);
    return (int64_t)((uint32_t)other ^ joined >> 1 ^ (-(joined & 1) & 0x9908b0dfu));
}

/* The next words of a Mersenne twister, of which all were given. */
static DJ_ONCE void dj_twist(int64_t *words) {
    const int rest = DJ_TWISTED - DJ_APART;
    int at = 0;
    for (; at < rest; at++) words[at] = dj_twisted(words[at], words[at + 1], words[at + DJ_APART]);
    for (; at < DJ_TWISTED - 1; at++) {
        words[at] = dj_twisted(words[at], words[at + 1], words[at - rest]);
    }
    words[at] = dj_twisted(words[at], words[0], words[at - rest]);
}

DJ_INLINE uint32_t dj_of_mt19937(int64_t *state) {
    if (__builtin_expect(state[DJ_AT] >= DJ_TWISTED, 0)) {
        dj_twist(state + DJ_WORDS);
        state[DJ_AT] = 0;
    }
    uint32_t word = (uint32_t)state[DJ_WORDS + state[DJ_AT]++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
}

/* Two words of a generator as a number of 128 bits, the upper one first. */
DJ_INLINE unsigned __int128 dj_two_words(const int64_t *words) {
    return (unsigned __int128)(uint64_t)words[0] << 64 | (uint64_t)words[1];
}

DJ_INLINE void dj_set_two_words(int64_t *words, unsigned __int128 number) {
    words[0] = (int64_t)(uint64_t)(number >> 64);
    words[1] = (int64_t)(uint64_t)number;
}

DJ_INLINE uint64_t dj_of_pcg64(int64_t *words) {
    const unsigned __int128 factor =
        (unsigned __int128)UINT64_C(0x2360ed051fc65da4) << 64 | UINT64_C(0x4385df649fccf645);
    unsigned __int128 now = dj_two_words(words) * factor + dj_two_words(words + 2);
    dj_set_two_words(words, now);
    uint64_t folded = (uint64_t)(now >> 64) ^ (uint64_t)now;
    unsigned turn = (unsigned)(now >> 122);
    return folded >> turn | folded << (-turn & 63);
}

DJ_INLINE uint64_t dj_of_pcg64dxsm(int64_t *words) {
    const uint64_t factor = UINT64_C(0xda942042e4dd58b5);
    unsigned __int128 now = dj_two_words(words);
    uint64_t upper = (uint64_t)(now >> 64), lower = (uint64_t)now | 1;
    upper = (upper ^ upper >> 32) * factor;
    upper = (upper ^ upper >> 48) * lower;
    dj_set_two_words(words, now * factor + dj_two_words(words + 2));
    return upper;
}

/* The words: four that count, two of a key, four that were made of these. */
DJ_INLINE uint64_t dj_of_philox(int64_t *state) {
    int64_t *counter = state + DJ_WORDS, *made = counter + 6;
    if (state[DJ_AT] < 4) return (uint64_t)made[state[DJ_AT]++];
    for (int word = 0; word < 4; word++) {
        counter[word] = (int64_t)((uint64_t)counter[word] + 1);
        if (counter[word]) break;
    }
    uint64_t a = (uint64_t)counter[0], b = (uint64_t)counter[1];
    uint64_t c = (uint64_t)counter[2], d = (uint64_t)counter[3];
    uint64_t first = (uint64_t)counter[4], second = (uint64_t)counter[5];
    for (int round = 0; round < 10; round++) {
        unsigned __int128 p = (unsigned __int128)UINT64_C(0xd2e7470ee14c6c93) * a;
        unsigned __int128 q = (unsigned __int128)UINT64_C(0xca5a826395121157) * c;
        a = (uint64_t)(q >> 64) ^ b ^ first;
        c = (uint64_t)(p >> 64) ^ d ^ second;
        b = (uint64_t)q;
        d = (uint64_t)p;
        first += UINT64_C(0x9e3779b97f4a7c15);
        second += UINT64_C(0xbb67ae8584caa73b);
    }
    made[0] = (int64_t)a;
    made[1] = (int64_t)b;
    made[2] = (int64_t)c;
    made[3] = (int64_t)d;
    state[DJ_AT] = 1;
    return a;
}

DJ_INLINE uint64_t dj_of_sfc64(int64_t *words) {
    uint64_t a = (uint64_t)words[0], b = (uint64_t)words[1], c = (uint64_t)words[2];
    uint64_t count = (uint64_t)words[3], found = a + b + count;
    words[0] = (int64_t)(b ^ b >> 11);
    words[1] = (int64_t)(c + (c << 3));
    words[2] = (int64_t)((c << 24 | c >> 40) + found);
    words[3] = (int64_t)(count + 1);
    return found;
}

DJ_INLINE uint64_t dj_drawn_u64(int64_t *state) {
    uint64_t upper;
    switch (state[DJ_GENERATOR]) {
        case DJ_OF_PCG64: return dj_of_pcg64(state + DJ_WORDS);
        case DJ_OF_PCG64DXSM: return dj_of_pcg64dxsm(state + DJ_WORDS);
        case DJ_OF_PHILOX: return dj_of_philox(state);
        case DJ_OF_SFC64: return dj_of_sfc64(state + DJ_WORDS);
    }
    upper = dj_of_mt19937(state);
    return upper << 32 | dj_of_mt19937(state);
}

DJ_INLINE uint32_t dj_drawn_u32(int64_t *state) {
    if (state[DJ_GENERATOR] == DJ_OF_MT19937) return dj_of_mt19937(state);
    if (state[DJ_HAS_SPARE]) {
        state[DJ_HAS_SPARE] = 0;
        return (uint32_t)state[DJ_SPARE];
    }
    uint64_t both = dj_drawn_u64(state);
    state[DJ_HAS_SPARE] = 1;
    state[DJ_SPARE] = (int64_t)(both >> 32);
    return (uint32_t)both;
}

/* A double in [0, 1). */
DJ_INLINE double dj_draw_random(int64_t *state) {
    if (state[DJ_GENERATOR] == DJ_OF_MT19937) {
        uint32_t upper = dj_of_mt19937(state) >> 5, lower = dj_of_mt19937(state) >> 6;
        return ((double)upper * 67108864.0 + (double)lower) * (1.0 / 9007199254740992.0);
    }
    return (double)(dj_drawn_u64(state) >> 11) * (1.0 / 9007199254740992.0);
}

/* The ones that cover a number. */
DJ_INLINE uint64_t dj_ones(uint64_t most) { return most ? ~UINT64_C(0) >> __builtin_clzll(most) : 0; }

/* An int from `low` to `high` - 1, as `RandomState` draws it: again, until it is one. */
DJ_INLINE int64_t dj_draw_masked(int64_t *state, int64_t low, int64_t high) {
    uint64_t most = (uint64_t)high - 1 - (uint64_t)low, mask = dj_ones(most), found;
    if (!most) return low;
    if (most <= UINT32_MAX) {
        do found = dj_drawn_u32(state) & mask;
        while (found > most);
    } else {
        do found = dj_drawn_u64(state) & mask;
        while (found > most);
    }
    return (int64_t)((uint64_t)low + found);
}

/* The same as `Generator` draws it: the upper half of a product. */
DJ_INLINE int64_t dj_draw_scaled(int64_t *state, int64_t low, int64_t high) {
    uint64_t most = (uint64_t)high - 1 - (uint64_t)low;
    if (!most) return low;
    if (most == UINT32_MAX) return (int64_t)((uint64_t)low + dj_drawn_u32(state));
    if (most < UINT32_MAX) {
        uint32_t count = (uint32_t)most + 1;
        uint64_t product = (uint64_t)dj_drawn_u32(state) * count;
        if ((uint32_t)product < count) {
            uint32_t least = (uint32_t)-count % count;
            while ((uint32_t)product < least) product = (uint64_t)dj_drawn_u32(state) * count;
        }
        return (int64_t)((uint64_t)low + (product >> 32));
    }
    uint64_t count = most + 1;
    unsigned __int128 product = (unsigned __int128)dj_drawn_u64(state) * count;
    if ((uint64_t)product < count) {
        uint64_t least = -count % count;
        while ((uint64_t)product < least) product = (unsigned __int128)dj_drawn_u64(state) * count;
    }
    return (int64_t)((uint64_t)low + (uint64_t)(product >> 64));
}

/* The same as Python's `random` draws it: as many bits as the number of choices has. */
DJ_INLINE int64_t dj_draw_bits(int64_t *state, int64_t low, int64_t high) {
    uint64_t count = (uint64_t)high - (uint64_t)low, found;
    int bits = 64 - __builtin_clzll(count);
    do {
        found = dj_of_mt19937(state);
        if (bits <= 32) {
            found >>= 32 - bits;
        } else {
            found |= (uint64_t)dj_of_mt19937(state) >> (64 - bits) << 32;
        }
    } while (found >= count);
    return (int64_t)((uint64_t)low + found);
}

/* Functions of the C library, and no other that a compiler knows to be nearly the same. */
#define DJ_BY_LIBRARY(name) double (*const volatile library_##name)(double) = name

/* The second of two numbers that were drawn together. */
DJ_INLINE void dj_keep_normal(int64_t *state, double second) {
    state[DJ_HAS_NORMAL] = 1;
    memcpy(&state[DJ_NORMAL], &second, sizeof second);
}

DJ_INLINE double dj_kept_normal(int64_t *state) {
    double second;
    memcpy(&second, &state[DJ_NORMAL], sizeof second);
    state[DJ_HAS_NORMAL] = state[DJ_NORMAL] = 0;
    return second;
}

/* A standard normal number of `RandomState`: by a point of the disc. */
static DJ_ONCE double dj_draw_polar(int64_t *state) {
    DJ_BY_LIBRARY(log);
    if (state[DJ_HAS_NORMAL]) return dj_kept_normal(state);
    double x, y, square;
    do {
        x = 2.0 * dj_draw_random(state) - 1.0;
        y = 2.0 * dj_draw_random(state) - 1.0;
        square = x * x + y * y;
    } while (square >= 1.0 || square == 0.0);
    double factor = sqrt(-2.0 * library_log(square) / square);
    dj_keep_normal(state, factor * x);
    return factor * y;
}

/* A standard normal number of Python's `random.gauss`: by an angle. */
static DJ_ONCE double dj_draw_angle(int64_t *state) {
    DJ_BY_LIBRARY(log);
    DJ_BY_LIBRARY(cos);
    DJ_BY_LIBRARY(sin);
    if (state[DJ_HAS_NORMAL]) return dj_kept_normal(state);
    double angle = dj_draw_random(state) * 0x1.921fb54442d18p+2;
    double length = sqrt(-2.0 * library_log(1.0 - dj_draw_random(state)));
    dj_keep_normal(state, library_sin(angle) * length);
    return library_cos(angle) * length;
}

/* A standard normal number of `Generator`: by layers. */
static DJ_ONCE double dj_draw_normal(int64_t *state) {
    DJ_BY_LIBRARY(log1p);
    DJ_BY_LIBRARY(exp);
    const double last = 3.6541528853610088, inverse = 0.27366123732975828;
    for (;;) {
        uint64_t word = dj_drawn_u64(state);
        int layer = (int)(word & 0xff);
        uint64_t number = word >> 9 & UINT64_C(0xfffffffffffff);
        double x = (double)number * dj_normal_widths()[layer];
        if (word >> 8 & 1) x = -x;
        if (__builtin_expect(number < dj_normal_bounds()[layer], 1)) return x;
        if (layer) {
            const double *heights = dj_normal_heights();
            double height = (heights[layer - 1] - heights[layer]) * dj_draw_random(state);
            if (height + heights[layer] < library_exp(-0.5 * x * x)) return x;
            continue;
        }
        for (;;) {
            double further = -inverse * library_log1p(-dj_draw_random(state));
            double depth = -library_log1p(-dj_draw_random(state));
            if (depth + depth > further * further) {
                return number >> 8 & 1 ? -(last + further) : last + further;
            }
        }
    }
}

/* A number of the exponential distribution of `Generator`: by layers. */
static DJ_ONCE double dj_draw_exponential(int64_t *state) {
    DJ_BY_LIBRARY(log1p);
    DJ_BY_LIBRARY(exp);
    for (;;) {
        uint64_t word = dj_drawn_u64(state) >> 3;
        int layer = (int)(word & 0xff);
        uint64_t number = word >> 8;
        double x = (double)number * dj_exponential_widths()[layer];
        if (__builtin_expect(number < dj_exponential_bounds()[layer], 1)) return x;
        if (!layer) return 7.69711747013104972 - library_log1p(-dj_draw_random(state));
        const double *heights = dj_exponential_heights();
        double height = (heights[layer - 1] - heights[layer]) * dj_draw_random(state);
        if (height + heights[layer] < library_exp(-x)) return x;
    }
}

/* The same of `RandomState`, and of Python's: the inverse of the distribution. */
static DJ_ONCE double dj_draw_inverse(int64_t *state) {
    DJ_BY_LIBRARY(log);
    return -library_log(1.0 - dj_draw_random(state));
}

/* Begin a Mersenne twister with a number. */
DJ_INLINE void dj_begin_twister(int64_t *state, uint32_t seed) {
    for (int at = 0; at < DJ_TWISTED; at++) {
        state[DJ_WORDS + at] = seed;
        seed = 1812433253u * (seed ^ seed >> 30) + (uint32_t)at + 1;
    }
    state[DJ_AT] = DJ_TWISTED;
    state[DJ_HAS_NORMAL] = state[DJ_NORMAL] = 0;
}

/* `RandomState.seed`; whether it does not raise. */
static DJ_ONCE uint8_t dj_draw_seed(int64_t *state, int64_t seed) {
    if (state[DJ_GENERATOR] != DJ_OF_MT19937 || (uint64_t)seed > UINT32_MAX) return 0;
    dj_begin_twister(state, (uint32_t)seed);
    return 1;
}

/* A standard normal number of Python's `random.normalvariate`: by a quotient. */
static DJ_ONCE double dj_draw_ratio(int64_t *state) {
    DJ_BY_LIBRARY(log);
    for (;;) {
        double x = dj_draw_random(state), y = 1.0 - dj_draw_random(state);
        double found = 0x1.b72cd3f331398p+0 * (x - 0.5) / y;
        if (found * found / 4.0 <= -library_log(y)) return found;
    }
}

/* `random.seed`, whose words are mixed into those of the twister. */
static DJ_ONCE uint8_t dj_draw_python_seed(int64_t *state, int64_t seed) {
    uint64_t number = seed < 0 ? -(uint64_t)seed : (uint64_t)seed;
    uint32_t keys[2] = {(uint32_t)number, (uint32_t)(number >> 32)};
    int count = keys[1] ? 2 : 1, at = 1;
    int64_t *words = state + DJ_WORDS;
    dj_begin_twister(state, 19650218u);
    for (int turn = 0; turn < 2 * DJ_TWISTED - 1; turn++) {
        uint32_t before = (uint32_t)words[at - 1], now = (uint32_t)words[at];
        int key = turn % count;
        now ^= (before ^ before >> 30) * (turn < DJ_TWISTED ? 1664525u : 1566083941u);
        now += turn < DJ_TWISTED ? keys[key] + (uint32_t)key : -(uint32_t)at;
        words[at] = now;
        if (++at == DJ_TWISTED) {
            words[0] = words[DJ_TWISTED - 1];
            at = 1;
        }
    }
    words[0] = 0x80000000u;
    return 1;
}

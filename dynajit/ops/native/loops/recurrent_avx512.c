/* The cells of recurrent_loops.h for x86 CPUs with AVX-512 that lose no clock by it. */
#if defined(__x86_64__) && defined(__GNUC__)
#pragma GCC target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")
#if !defined(__clang__)
#pragma GCC target("prefer-vector-width=512")
#endif
#define __FMA__ 1 /* Clang does not say so for a pragma */
#define NAMED(x) x##_avx512
#include "recurrent_loops.h"
#else
typedef int nothing;
#endif

/* The cells of recurrent_loops.h for x86 CPUs with AVX2 and FMA. */
#if defined(__x86_64__) && defined(__GNUC__)
#pragma GCC target("avx2,fma")
#define __FMA__ 1 /* Clang does not say so for a pragma */
#define NAMED(x) x##_avx2
#include "recurrent_loops.h"
#else
typedef int nothing;
#endif

/* Sums for x86 CPUs with AVX2: see sum_functions.h. */
#if defined(__x86_64__) && defined(__GNUC__)
#define DJ_SUM_TARGET __attribute__((target("avx2")))
#define NAMED(x) x##_avx2
#include "sum_functions.h"
#else
typedef int nothing; /* a unit of C has a declaration */
#endif

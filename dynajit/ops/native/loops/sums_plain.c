/* Sums for any CPU: see sum_functions.h. */
#define NAMED(x) x##_plain
#include "sum_functions.h"

/* The loops of vecmath_loops.h for any CPU. */
#define NAMED(x) x##_plain
#include "vecmath_loops.h"

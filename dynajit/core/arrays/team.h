/* The OpenMP threads of compiled functions, for the C of eager execution: see helper_threads.h.
 *
 * Contract: `team_ran` is said when they have run for the calling thread. For about AWAKE_NS they look
 * for work, each on a core; `team_is_awake` then, in that thread. Found by
 * `PyCapsule_Import(TEAM_CAPSULE, 0)`; `parallel` is NULL where there is no OpenMP, and in a forked
 * child, which has none of these threads.
 */
#ifndef DYNAJIT_TEAM_H
#define DYNAJIT_TEAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#define TEAM_CAPSULE "dynajit.core.arrays._products.team"

enum { AWAKE_NS = 100000 }; /* SPIN_COUNT of codegen/compilers/openmp.py takes as long, or less */

typedef struct {
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned); /* GOMP_parallel of libgomp */
    atomic_llong last; /* when they ran, by the clock, */
    atomic_ullong thread; /* and for whom */
} Team;

static inline long long team_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static inline unsigned long long team_caller(void) {
    return (unsigned long long)(uintptr_t)pthread_self();
}

static inline void team_ran(Team *team) {
    atomic_store(&team->last, team_clock());
    atomic_store(&team->thread, team_caller());
}

static inline int team_is_awake(Team *team) {
    return team->parallel && atomic_load(&team->thread) == team_caller() &&
           team_clock() - atomic_load(&team->last) < AWAKE_NS;
}

#endif

/* Convolutions of generated C for eager execution, for one instruction set; included by a file for
 * each, which defines NAMED(x), the name of x there, and has said for which CPU it is.
 *
 * Contract: those of `dj_correlate` and `dj_weigh` in convolution_kernels.h, `dj_correlate_planes` in
 * convolution_planes.h and `dj_winograd_correlate` in convolution_winograd.h, and their bits; the tasks are spread by `together`,
 * `run_together` of core/arrays/helper_threads.h.
 */
#include "eager_convolutions.h"

#define T float
#define DJ_OF(name) name##_f32
#include "convolution_kernels.h"
#include "convolution_planes.h"
#undef T
#undef DJ_OF
#include "convolution_winograd.h"
#define T double
#define DJ_OF(name) name##_f64
#include "convolution_kernels.h"
#include "convolution_planes.h"
#undef T
#undef DJ_OF

/* Each unit is a thread's memory: whoever has it takes tasks as long as there are some. */
#define EAGER(T, S)                                                                                 \
    typedef struct {                                                                                \
        const void *all;                                                                            \
        atomic_llong next;                                                                          \
    } Tasks_##S;                                                                                    \
                                                                                                    \
    static void pack_##S(void *context, int64_t unit) {                                             \
        Tasks_##S *tasks = context;                                                                 \
        const dj_correlation_##S *all = tasks->all;                                                 \
        int64_t task;                                                                               \
        while ((task = atomic_fetch_add(&tasks->next, 1)) < all->packs) dj_pack_task_##S(all, task); \
    }                                                                                               \
                                                                                                    \
    static void correlate_##S(void *context, int64_t unit) {                                        \
        Tasks_##S *tasks = context;                                                                 \
        const dj_correlation_##S *all = tasks->all;                                                 \
        int64_t task;                                                                               \
        while ((task = atomic_fetch_add(&tasks->next, 1)) < all->tasks)                             \
            dj_correlation_task_##S(all, task, unit);                                               \
    }                                                                                               \
                                                                                                    \
    static void convolve_planes_##S(void *context, int64_t unit) {                                  \
        Tasks_##S *tasks = context;                                                                 \
        const dj_planes_##S *all = tasks->all;                                                      \
        int64_t task;                                                                               \
        while ((task = atomic_fetch_add(&tasks->next, 1)) < all->tasks)                             \
            dj_planes_task_##S(all, task, unit);                                                    \
    }                                                                                               \
                                                                                                    \
    static void weigh_##S(void *context, int64_t unit) {                                            \
        Tasks_##S *tasks = context;                                                                 \
        const dj_weighing_##S *all = tasks->all;                                                    \
        int64_t task;                                                                               \
        while ((task = atomic_fetch_add(&tasks->next, 1)) < all->tasks)                             \
            dj_weighing_task_##S(all, task, unit);                                                  \
    }                                                                                               \
                                                                                                    \
    static void end_##S(void *context, int64_t unit) {                                              \
        Tasks_##S *tasks = context;                                                                 \
        const dj_weighing_##S *all = tasks->all;                                                    \
        int64_t task;                                                                               \
        while ((task = atomic_fetch_add(&tasks->next, 1)) < all->ends) dj_end_task_##S(all, task);  \
    }                                                                                               \
                                                                                                    \
    void NAMED(correlate_##S)(const dj_convolution *c, int is_back, const void *source,             \
                              const void *weight, const void *bias, void *result,                   \
                              Together together, int threads, int64_t *status) {                    \
        dj_planes_##S planes;                                                                       \
        if (dj_begin_planes_##S(&planes, c, is_back, source, weight, bias, result, threads)) {      \
            Tasks_##S units = {.all = &planes};                                                     \
            together(convolve_planes_##S, &units, planes.team, planes.team);                        \
            free(planes.memory);                                                                    \
            return;                                                                                 \
        }                                                                                           \
        dj_correlation_##S all;                                                                     \
        if (!dj_begin_correlation_##S(&all, c, is_back, source, weight, bias, result, threads,      \
                                      status))                                                      \
            return;                                                                                 \
        Tasks_##S packs = {.all = &all}, tasks = {.all = &all};                                     \
        together(pack_##S, &packs, all.team, all.team);                                             \
        together(correlate_##S, &tasks, all.team, all.team);                                        \
        free(all.memory);                                                                           \
    }                                                                                               \
                                                                                                    \
    void NAMED(weigh_##S)(const dj_convolution *c, const void *y, const void *x, void *result,      \
                          Together together, int threads, int64_t *status) {                        \
        dj_weighing_##S all;                                                                        \
        if (!dj_begin_weighing_##S(&all, c, y, x, result, threads, status)) return;                 \
        Tasks_##S tasks = {.all = &all}, ends = {.all = &all};                                      \
        together(weigh_##S, &tasks, all.team, all.team);                                            \
        together(end_##S, &ends, all.team, all.team);                                               \
        free(all.memory);                                                                           \
    }

EAGER(float, f32)
EAGER(double, f64)

typedef struct {
    dj_winograd *all;
    atomic_llong next;
} Tiles;

static void pack_winograd(void *context, int64_t unit) {
    Tiles *tasks = context;
    int64_t task;
    while ((task = atomic_fetch_add(&tasks->next, 1)) < tasks->all->packs)
        dj_winograd_pack(tasks->all, task);
}

static void correlate_winograd(void *context, int64_t unit) {
    Tiles *tasks = context;
    int64_t task;
    while ((task = atomic_fetch_add(&tasks->next, 1)) < tasks->all->tasks)
        dj_winograd_task(tasks->all, task, unit);
}

int NAMED(winograd)(const dj_convolution *c, int is_back, const void *source, const void *weight,
                    const void *bias, void *result, Together together, int threads) {
    dj_winograd all;
    if (!dj_winograd_suits(c, is_back) ||
        !dj_begin_winograd(&all, c, is_back, source, weight, bias, result, threads))
        return 0;
    Tiles packs = {.all = &all}, tasks = {.all = &all};
    together(pack_winograd, &packs, all.team, all.team);
    together(correlate_winograd, &tasks, all.team, all.team);
    free(all.memory);
    return !all.is_odd;
}

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
typedef struct {
    void *all;
    atomic_llong next;
} Tasks;

/* A unit of the tasks [0, all->count), where `all` is a TYPE. */
#define TASKS(name, TYPE, count, run)                                                               \
    static void name(void *context, int64_t unit) {                                                 \
        Tasks *tasks = context;                                                                     \
        TYPE *all = tasks->all;                                                                     \
        int64_t task;                                                                               \
        (void)unit;                                                                                 \
        while ((task = atomic_fetch_add(&tasks->next, 1)) < all->count) run;                        \
    }

static void run_tasks(void (*unit)(void *, int64_t), void *all, Together together, int team) {
    Tasks tasks = {.all = all};
    together(unit, &tasks, team, team);
}

#define EAGER(T, S)                                                                                 \
    TASKS(pack_##S, dj_correlation_##S, packs, dj_pack_task_##S(all, task))                         \
    TASKS(correlate_##S, dj_correlation_##S, tasks, dj_correlation_task_##S(all, task, unit))       \
    TASKS(convolve_planes_##S, dj_planes_##S, tasks, dj_planes_task_##S(all, task, unit))           \
    TASKS(weigh_##S, dj_weighing_##S, tasks, dj_weighing_task_##S(all, task, unit))                 \
    TASKS(end_##S, dj_weighing_##S, ends, dj_end_task_##S(all, task))                               \
                                                                                                    \
    void NAMED(correlate_##S)(const dj_convolution *c, int is_back, const void *source,             \
                              const void *weight, const void *bias, void *result,                   \
                              Together together, int threads, int64_t *status) {                    \
        dj_planes_##S planes;                                                                       \
        if (dj_begin_planes_##S(&planes, c, is_back, source, weight, bias, result, threads)) {      \
            run_tasks(convolve_planes_##S, &planes, together, planes.team);                         \
            free(planes.memory);                                                                    \
            return;                                                                                 \
        }                                                                                           \
        dj_correlation_##S all;                                                                     \
        if (!dj_begin_correlation_##S(&all, c, is_back, source, weight, bias, result, threads,      \
                                      status))                                                      \
            return;                                                                                 \
        run_tasks(pack_##S, &all, together, all.team);                                              \
        run_tasks(correlate_##S, &all, together, all.team);                                         \
        free(all.memory);                                                                           \
    }                                                                                               \
                                                                                                    \
    void NAMED(weigh_##S)(const dj_convolution *c, const void *y, const void *x, void *result,      \
                          Together together, int threads, int64_t *status) {                        \
        dj_weighing_##S all;                                                                        \
        if (!dj_begin_weighing_##S(&all, c, y, x, result, threads, status)) return;                 \
        run_tasks(weigh_##S, &all, together, all.team);                                             \
        run_tasks(end_##S, &all, together, all.team);                                               \
        free(all.memory);                                                                           \
    }

EAGER(float, f32)
EAGER(double, f64)

TASKS(pack_winograd, dj_winograd, packs, dj_winograd_pack(all, task))
TASKS(correlate_winograd, dj_winograd, tasks, dj_winograd_task(all, task, unit))

int NAMED(winograd)(const dj_convolution *c, int is_back, const void *source, const void *weight,
                    const void *bias, void *result, Together together, int threads) {
    dj_winograd all;
    if (!dj_winograd_suits(c, is_back) ||
        !dj_begin_winograd(&all, c, is_back, source, weight, bias, result, threads))
        return 0;
    run_tasks(pack_winograd, &all, together, all.team);
    run_tasks(correlate_winograd, &all, together, all.team);
    free(all.memory);
    return !all.is_odd;
}

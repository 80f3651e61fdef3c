/* Threads that wait for work, for the C of eager execution; included by _products.c.
 *
 * Contract: `run_together(unit, context, units, threads)` calls `unit(context, 0 .. units - 1)`, each
 * once, on the calling thread and others, and returns when all are done. Threads wait from the first
 * work for several on; a forked child starts its own. Right behind a compiled function its threads are
 * taken (team.h): they still look for work, and others would have to be woken and wait for the cores.
 * `_products.run_together` is a capsule with it.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "team.h"

enum {
    MOST_HELPERS = 63, /* threads beside the calling one */
    TURNS = 4000,      /* of looking for work before a thread sleeps: some 10 us */
};

#if defined(__x86_64__) && defined(__GNUC__)
#define PAUSE __builtin_ia32_pause()
#else
#define PAUSE ((void)0)
#endif

typedef struct {
    void (*unit)(void *, int64_t);
    void *context;
    int64_t units;
} Work;

static struct {
    pthread_mutex_t in_use;  /* by one work at a time */
    pthread_mutex_t lock;    /* of what follows */
    pthread_cond_t start, done;
    const Work *work;        /* NULL: all of it is taken */
    int count;               /* helpers that were started */
    int wanted;              /* of them for this work */
    atomic_int working;      /* of them at it */
    atomic_uint number;      /* of the work */
    atomic_llong next;       /* unit */
} helpers = {.in_use = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER,
             .start = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static void take_units(const Work *work) {
    for (;;) {
        const int64_t unit = atomic_fetch_add(&helpers.next, 1);
        if (unit >= work->units) return;
        work->unit(work->context, unit);
    }
}

static Team team;

static void take_all(void *work) { take_units(work); }

static void *help(void *position) {
    unsigned seen = 0;
    for (;;) {
        for (int turn = 0; turn < TURNS && atomic_load(&helpers.number) == seen; turn++) PAUSE;
        pthread_mutex_lock(&helpers.lock);
        while (atomic_load(&helpers.number) == seen)
            pthread_cond_wait(&helpers.start, &helpers.lock);
        seen = atomic_load(&helpers.number);
        const Work *work = (intptr_t)position < helpers.wanted ? helpers.work : NULL;
        if (work) atomic_fetch_add(&helpers.working, 1);
        pthread_mutex_unlock(&helpers.lock);
        if (!work) continue;
        take_units(work);
        pthread_mutex_lock(&helpers.lock);
        if (atomic_fetch_sub(&helpers.working, 1) == 1) pthread_cond_signal(&helpers.done);
        pthread_mutex_unlock(&helpers.lock);
    }
    return NULL;
}

/* At most `wanted` helpers; fewer where threads cannot be started. */
static int start_helpers(int wanted) {
    wanted = wanted < MOST_HELPERS ? wanted : MOST_HELPERS;
    while (helpers.count < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, help, (void *)(intptr_t)helpers.count)) break;
        pthread_detach(thread);
        helpers.count++;
    }
    return wanted < helpers.count ? wanted : helpers.count;
}

/* While another thread has the helpers, the work is done without them. One that comes late finds
 * nothing to do, and is not waited for. */
static void run_together(void (*unit)(void *, int64_t), void *context, int64_t units, int threads) {
    const Work work = {.unit = unit, .context = context, .units = units};
    if (threads < 2 || units < 2 || pthread_mutex_trylock(&helpers.in_use)) {
        for (int64_t i = 0; i < units; i++) unit(context, i);
        return;
    }
    if (team_is_awake(&team)) {
        atomic_store(&helpers.next, 0);
        team.parallel(take_all, (void *)&work, (unsigned)threads, 0);
        team_ran(&team);
        pthread_mutex_unlock(&helpers.in_use);
        return;
    }
    pthread_mutex_lock(&helpers.lock);
    helpers.work = &work;
    helpers.wanted = start_helpers(threads - 1);
    atomic_store(&helpers.next, 0);
    atomic_fetch_add(&helpers.number, 1);
    pthread_cond_broadcast(&helpers.start);
    pthread_mutex_unlock(&helpers.lock);
    take_units(&work);
    pthread_mutex_lock(&helpers.lock);
    helpers.work = NULL;
    pthread_mutex_unlock(&helpers.lock);
    for (int turn = 0; turn < TURNS && atomic_load(&helpers.working); turn++) PAUSE;
    pthread_mutex_lock(&helpers.lock);
    while (atomic_load(&helpers.working)) pthread_cond_wait(&helpers.done, &helpers.lock);
    pthread_mutex_unlock(&helpers.lock);
    pthread_mutex_unlock(&helpers.in_use);
}

/* The helpers stay in the parent, and whatever they had locked. */
static void forget_helpers(void) {
    helpers.in_use = helpers.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    helpers.start = helpers.done = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    team.parallel = NULL;
    helpers.count = 0;
    atomic_store(&helpers.working, 0);
}

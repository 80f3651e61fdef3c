/* CUDA graphs of a plan: one per set of addresses and sizes that was met twice, replayed when it is
 * met again; numbers are set in the graph before. What is new runs as without graphs, so a replay
 * only ever reads and writes memory of the arrays that its own call was given. */
#ifndef DYNAJIT_DEVICE_REPLAYS_H
#define DYNAJIT_DEVICE_REPLAYS_H

#include "plan.h"

typedef struct {
    uint64_t *words;
    void **nodes; /* by step */
    void *graph, *executable;
    uint64_t last_used;
} Replay;

#define MOST_REPLAYS 4
#define MOST_RECENT 16

/* Mutable; `lock` guards it, and is never waited for under the GIL. */
typedef struct {
    int is_on;
    const char *is_identity; /* by slot: the word must be the same for a replay */
    Replay kept[MOST_REPLAYS];
    int count;
    uint64_t recent[MOST_RECENT]; /* hashes of what was met once */
    int next_recent;
    uint64_t clock, hits, captures;
    void *stream; /* for capturing: the default stream cannot be */
    const char *refused; /* the call that refused to make a graph; they are off then */
    int refused_code;
    pthread_mutex_t lock;
} Replays;

/* Replay or enqueue; -1 with `failed` of the run. Needs no GIL. */
int replays_run(Replays *replays, Run *run);

/* Destroy all graphs. */
void replays_clear(Replays *replays, DriverObject *driver);

#endif

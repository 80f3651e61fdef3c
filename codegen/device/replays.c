/* See replays.h. */
#include "replays.h"

#include <stdlib.h>
#include <string.h>

/* Captures that are allowed beside those that hits have earned: arrays whose addresses never come
 * again would be captured in vain for ever. */
#define FREE_CAPTURES 8
#define HITS_PER_CAPTURE 8

/* Where the graph of a plan starts. A call waits for the last step that may fail: where most steps
 * stand behind it, those up to it run by themselves, so that nobody waits for the whole graph. */
static Py_ssize_t graph_start(const PlanObject *plan) {
    Py_ssize_t front = plan->last_failing + 1;
    return front <= plan->step_count / 2 ? front : 0;
}

static uint64_t identity_of(const Replays *replays, const Run *run) {
    uint64_t hash = 14695981039346656037ull; /* FNV-1a, by words */
    for (int i = 0; i < run->plan->slot_count; i++)
        if (replays->is_identity[i]) hash = (hash ^ run->words[i]) * 1099511628211ull;
    return hash;
}

static int fits(const Replays *replays, const Replay *replay, const Run *run) {
    for (int i = 0; i < run->plan->slot_count; i++)
        if (replays->is_identity[i] && replay->words[i] != run->words[i]) return 0;
    return 1;
}

static void forget(Replay *replay, DriverObject *driver) {
    if (replay->executable) driver->call.graph_exec_destroy(replay->executable);
    if (replay->graph) driver->call.graph_destroy(replay->graph);
    free(replay->words);
    free(replay->nodes);
    memset(replay, 0, sizeof *replay);
}

void replays_clear(Replays *replays, DriverObject *driver) {
    for (int i = 0; i < replays->count; i++) forget(&replays->kept[i], driver);
    replays->count = 0;
    if (replays->stream) driver->call.stream_destroy(replays->stream);
    replays->stream = NULL;
}

static int has_changed(const Run *run, const Replay *replay, const Step *step) {
    const Word *references = run->plan->references + step->first_word;
    for (int i = 0; i < step->word_count; i++) {
        int base = references[i].base, addend = references[i].addend;
        if (run->words[base] != replay->words[base]) return 1;
        if (addend >= 0 && run->words[addend] != replay->words[addend]) return 1;
    }
    return 0;
}

/* Tell the kernels of a graph the numbers of this call. */
static int set_numbers(Run *run, const Replay *replay) {
    const PlanObject *plan = run->plan;
    for (Py_ssize_t i = graph_start(plan); i < plan->step_count; i++) {
        const Step *step = &plan->steps[i];
        if (step->kind != STEP_KERNEL || !step_is_launched(run, step) ||
            !has_changed(run, replay, step))
            continue;
        step_parameters(run, step);
        KernelNodeParameters wanted = {step->function, {0, 0, 0},
                                       {step->block[0], step->block[1], step->block[2]},
                                       (unsigned)run->words[step->dynamic], run->parameters, NULL};
        for (int d = 0; d < 3; d++) wanted.grid[d] = (unsigned)run->words[step->grid[d]];
        int code = plan->module->driver->call.graph_set_kernel(replay->executable,
                                                               replay->nodes[i], &wanted);
        if (code) return code;
    }
    return 0;
}

static int replay_run(Replays *replays, Run *run, Replay *replay) {
    const DriverFunctions *call = &run->plan->module->driver->call;
    Py_ssize_t start = graph_start(run->plan);
    if (plan_enqueue(run, 0, start) < 0) return -1;
    run->failed = "cuGraphExecKernelNodeSetParams";
    run->code = set_numbers(run, replay);
    if (run->code) return -1;
    memcpy(replay->words, run->words, (size_t)run->plan->slot_count * 8);
    replay->last_used = ++replays->clock;
    run->failed = "cuGraphLaunch";
    run->code = call->graph_launch(replay->executable, run->stream);
    if (!run->code && run->mark && !start) {
        run->failed = "cuEventRecord";
        run->code = call->event_record(run->mark, run->stream);
    }
    return run->code ? -1 : 0;
}

static int is_recent(Replays *replays, uint64_t identity) {
    for (int i = 0; i < MOST_RECENT; i++)
        if (replays->recent[i] == identity) return 1;
    replays->recent[replays->next_recent++ % MOST_RECENT] = identity;
    return 0;
}

/* Room for one more: the one that was not used for longest goes. */
static Replay *place_for(Replays *replays, DriverObject *driver) {
    if (replays->count < MOST_REPLAYS) return &replays->kept[replays->count++];
    Replay *oldest = &replays->kept[0];
    for (int i = 1; i < MOST_REPLAYS; i++)
        if (replays->kept[i].last_used < oldest->last_used) oldest = &replays->kept[i];
    forget(oldest, driver);
    return oldest;
}

/* The steps from graph_start on as a graph; the run's own stream and mark are not touched. */
static int record(Replays *replays, Run *run, Replay *made, const char **refused) {
    const DriverFunctions *call = &run->plan->module->driver->call;
    int code;
    *refused = "cuStreamCreate";
    if (!replays->stream && (code = call->stream_create(&replays->stream, STREAM_NON_BLOCKING)))
        return code;
    *refused = "cuStreamBeginCapture";
    if ((code = call->capture_begin(replays->stream, CAPTURE_MODE_RELAXED))) return code;
    Run capture = *run;
    capture.stream = replays->stream;
    capture.mark = NULL;
    capture.nodes = made->nodes;
    plan_enqueue(&capture, graph_start(run->plan), run->plan->step_count);
    code = call->capture_end(replays->stream, &made->graph);
    *refused = capture.code ? capture.failed : "cuStreamEndCapture";
    if (capture.code || code) return capture.code ? capture.code : code;
    *refused = "cuGraphInstantiate";
    return call->graph_instantiate(&made->executable, made->graph, 0);
}

/* A graph of this run; NULL where none can be made, and none will be tried again. */
static Replay *capture(Replays *replays, Run *run) {
    DriverObject *driver = run->plan->module->driver;
    Replay *made = place_for(replays, driver);
    replays->captures++;
    made->words = malloc((size_t)run->plan->slot_count * 8);
    made->nodes = calloc((size_t)run->plan->step_count + 1, sizeof(void *));
    int code = CUDA_ERROR_OUT_OF_MEMORY;
    const char *refused = "malloc";
    if (made->words && made->nodes) code = record(replays, run, made, &refused);
    if (!code) {
        memcpy(made->words, run->words, (size_t)run->plan->slot_count * 8);
        return made;
    }
    replays->is_on = 0;
    replays->refused = refused;
    replays->refused_code = code;
    replays_clear(replays, driver);
    return NULL;
}

static int is_earned(const Replays *replays) {
    return replays->captures < FREE_CAPTURES + replays->hits / HITS_PER_CAPTURE;
}

/* Somebody else captures the stream: a launch of a graph cannot be part of theirs, kernels can. */
static int is_capturing(Run *run) {
    int status = CAPTURE_STATUS_NONE;
    run->plan->module->driver->call.stream_is_capturing(run->stream, &status);
    return status != CAPTURE_STATUS_NONE;
}

int replays_run(Replays *replays, Run *run) {
    Py_ssize_t count = run->plan->step_count;
    if (is_capturing(run)) return plan_enqueue(run, 0, count);
    pthread_mutex_lock(&replays->lock);
    Replay *found = NULL;
    for (int i = 0; i < replays->count && !found; i++)
        if (fits(replays, &replays->kept[i], run)) found = &replays->kept[i];
    if (found) replays->hits++;
    else if (replays->is_on && is_recent(replays, identity_of(replays, run)) && is_earned(replays))
        found = capture(replays, run);
    int done = found ? replay_run(replays, run, found) : plan_enqueue(run, 0, count);
    pthread_mutex_unlock(&replays->lock);
    return done;
}

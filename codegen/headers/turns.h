/* Turns of a loop by one function, for a unit that has the loop: see `codegen.loops.turns`.
 *
 * A turn takes its numbers, what the turn before has handed on, its row of each array that is stacked,
 * and what is fixed. Nothing is allocated or copied from turn to turn: an output is written to the
 * arrays of its cycle in order, or to its row of a result, and what is handed on is a pointer. */

/* A number of each turn: from steps, or from a list. */
typedef struct {
    int64_t start, step;
    const void *listed; /* eight bytes each, of ints or floats; NULL for steps */
} dj_turn_number;

/* A result of a turn that is carried (first) or collected. */
typedef struct {
    int from;        /* an output of the turn, or ~ an input that it hands on */
    int64_t bytes;   /* of it */
    char *to;        /* the result of the loop; NULL for one that nobody needs */
} dj_turn_result;

/* Where an output is written. */
typedef struct {
    int row;           /* the result that collects it; -1: to the arrays that follow, in order */
    int is_own;        /* the first of these is the array of a result */
    int64_t count;
    char *const *arrays;
} dj_turn_cycle;

typedef struct {
    void (*run)(void **inputs, void **outputs, const dj_scalar *scalars, char *workspace,
                const dj_runtime *runtime, int threads, int64_t *status);
    int64_t limit; /* -1: none */
    int numbers, carried, collected, stacked, inputs, outputs;
    int test; /* the output that says whether another turn follows; -1: none does */
    int backwards;
    const dj_turn_number *number;
    const dj_turn_result *result;
    const dj_turn_cycle *cycle;
    const int64_t *rows; /* bytes of a row of each array that is stacked */
    const void *const *operands;
    char *workspace;
    int64_t *count; /* gets the number of turns; NULL if nobody needs it */
} dj_turns;

/* The arguments of a turn. */
DJ_INLINE void dj_begin_turn(const dj_turns *all, int64_t turn, int64_t place, int64_t shift,
                             void **inputs, void **outputs, dj_scalar *scalars) {
    for (int k = 0; k < all->numbers; k++) {
        const dj_turn_number *number = &all->number[k];
        if (number->listed) memcpy(&scalars[k], (const char *)number->listed + 8 * place, 8);
        else scalars[k].i = number->start + number->step * place;
    }
    for (int k = 0; k < all->stacked; k++) {
        const char *whole = (const char *)all->operands[all->carried + k];
        inputs[all->carried + k] = (void *)(whole + place * all->rows[k]);
    }
    for (int k = 0; k < all->outputs; k++) {
        const dj_turn_cycle *cycle = &all->cycle[k];
        if (cycle->row < 0) {
            outputs[k] = cycle->arrays[cycle->count == 1 ? 0 : (turn + shift) % cycle->count];
            continue;
        }
        const dj_turn_result *result = &all->result[cycle->row];
        outputs[k] = result->to + place * result->bytes;
    }
}

DJ_INLINE void *dj_turn_value(int from, void **inputs, void **outputs) {
    return from < 0 ? inputs[~from] : outputs[from];
}

/* Keep what a turn gives, and hand it on. */
DJ_INLINE void dj_end_turn(const dj_turns *all, int64_t place, void **inputs, void **outputs,
                           void **handed) {
    for (int k = all->carried; k < all->carried + all->collected; k++) {
        const dj_turn_result *result = &all->result[k];
        if (!result->to || (result->from >= 0 && all->cycle[result->from].row == k)) continue;
        memcpy(result->to + place * result->bytes, dj_turn_value(result->from, inputs, outputs),
               (size_t)result->bytes);
    }
    for (int k = 0; k < all->carried; k++)
        handed[k] = dj_turn_value(all->result[k].from, inputs, outputs);
    for (int k = 0; k < all->carried; k++) inputs[k] = handed[k];
}

/* Results of which the last turn left the values elsewhere: those first whose arrays are in no cycle,
 * because what is in a cycle may be read for another result. */
DJ_INLINE void dj_end_turns(const dj_turns *all, int64_t turns, void **inputs) {
    for (int in_cycle = 0; in_cycle < 2; in_cycle++) {
        for (int k = 0; k < all->carried; k++) {
            const dj_turn_result *result = &all->result[k];
            if (!result->to || result->to == (char *)inputs[k]) continue;
            const dj_turn_cycle *cycle = result->from < 0 ? NULL : &all->cycle[result->from];
            int is_in_cycle = cycle && cycle->is_own && cycle->arrays[0] == result->to;
            if (is_in_cycle == in_cycle) memcpy(result->to, inputs[k], (size_t)result->bytes);
        }
    }
    for (int k = all->carried; k < all->carried + all->collected && turns < all->limit; k++) {
        const dj_turn_result *result = &all->result[k];
        int64_t first = all->backwards ? 0 : turns;
        if (result->to)
            memset(result->to + first * result->bytes, 0,
                   (size_t)((all->limit - turns) * result->bytes));
    }
    if (all->count) *all->count = turns;
}

/* By how much turns are counted on, so that the last one, if it is known, writes to the first array of
 * each cycle. */
DJ_INLINE int64_t dj_turn_shift(const dj_turns *all) {
    if (all->limit < 1 || all->test >= 0) return 0;
    int64_t common = 1;
    for (int k = 0; k < all->outputs; k++) {
        int64_t count = all->cycle[k].row < 0 ? all->cycle[k].count : 1;
        if (common % count) common *= count;
    }
    return (common - (all->limit - 1) % common) % common;
}

/* All turns. Status 4: a signal has raised an exception. */
static DJ_ONCE void dj_run_turns(const dj_turns *all, int goes, const dj_runtime *runtime, int threads,
                                 int64_t *status) {
    void *inputs[all->inputs + 1], *outputs[all->outputs + 1], *handed[all->carried + 1];
    dj_scalar scalars[all->numbers + 1];
    int64_t turn = 0, shift = dj_turn_shift(all), seconds = time(NULL);
    memcpy(inputs, all->operands, sizeof(void *) * (size_t)all->inputs);
    while (goes && turn != all->limit) {
        int64_t place = all->backwards ? all->limit - 1 - turn : turn;
        dj_begin_turn(all, turn, place, shift, inputs, outputs, scalars);
        all->run(inputs, outputs, scalars, all->workspace, runtime, threads, status);
        if (status[0]) return;
        goes = all->test < 0 || *(char *)outputs[all->test];
        dj_end_turn(all, place, inputs, outputs, handed);
        turn++;
        int64_t now = time(NULL);
        if (now != seconds && runtime->is_interrupted()) {
            status[0] = 4;
            return;
        }
        seconds = now;
    }
    dj_end_turns(all, turn, inputs);
}

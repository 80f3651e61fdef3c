/* Turns of a loop by one function (`codegen.loops.turns`): what they are, and the functions of the
 * process that run them (turns.h of _runtime.c), which would cost each unit 60 ms of compiler.
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
    int from;      /* an output of the turn, or ~ an input that it hands on */
    int64_t bytes; /* of it */
    int64_t row;   /* from what is collected of a turn to that of the next */
    char *to;      /* the result of the loop; NULL for one that nobody needs */
} dj_turn_result;

/* Where an output is written: to a row, or to arrays in order. */
typedef struct {
    int row;                    /* the result that collects it; -1: none */
    int own;                    /* the result whose array is the first in order; -1: none */
    int64_t count, place, step; /* of arrays; in memory, from where and by how many bytes */
} dj_turn_cycle;

typedef struct {
    void (*run)(const void *owner, void **inputs, void **outputs, const dj_scalar *scalars,
                char *workspace, const dj_runtime *runtime, int threads, int64_t *status);
    const void *owner;
    int64_t limit; /* -1: none */
    int numbers, carried, collected, stacked, inputs, outputs;
    int test; /* the output that says whether another turn follows; -1: none does */
    int backwards;
    int unset; /* rows that no turn gives are left alone, else they are zeros */
    const dj_turn_number *number;
    const dj_turn_result *result;
    const dj_turn_cycle *cycle;
    const int64_t *rows; /* bytes from a row to the next of each array that is stacked */
    const void *const *operands;
    char *memory;   /* of the cycles; a turn has what is in front of them */
    int64_t *count; /* gets the number of turns; NULL if nobody needs it */
} dj_turns;

/* For turns that take and give single elements of arrays, `elements` each, and numbers that no element
 * is read for: all turns for some of the elements, which stay in the nearest cache, then for the next. The function of a turn is one of
 * `chunk` elements; the last chunk begins where it fits, and computes some once more. */
typedef struct {
    int64_t elements, chunk, count; /* of all, of a chunk, of chunks */
    const int64_t *steps;           /* bytes of an element of each operand; 0: all elements read one */
    const int64_t *sizes;           /* bytes of an element of each result */
    int64_t bytes;                  /* of the memory of a chunk */
    int goes;                       /* there is a turn */
} dj_chunks;

/* All turns; status 4: a signal has raised an exception. */
DJ_INLINE void dj_run_turns(const dj_turns *all, int goes, const dj_runtime *runtime, int threads,
                            int64_t *status) {
    ((void (*)(const dj_turns *, int, int, const dj_runtime *, int, int64_t *))runtime->run_turns)(
        all, goes, 1, runtime, threads, status);
}

/* All turns of a chunk. */
DJ_INLINE void dj_run_chunk(const dj_turns *all, const dj_chunks *chunks, int64_t chunk, int threads,
                            const dj_runtime *runtime, int64_t *status) {
    ((void (*)(const dj_turns *, const dj_chunks *, int64_t, int, const dj_runtime *,
               int64_t *))runtime->run_chunk)(all, chunks, chunk, threads, runtime, status);
}

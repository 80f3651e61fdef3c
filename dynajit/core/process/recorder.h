/* What C modules call to have their work recorded while somebody profiles: see `_recorder.c`.
 *
 * Contract: everything is called with the GIL. `is_on` is read before anything else; while it is 0
 * nothing is to be called. Found by `PyCapsule_Import(RECORDER_CAPSULE, 0)`. */
#ifndef DYNAJIT_RECORDER_H
#define DYNAJIT_RECORDER_H

#include <Python.h>
#include <stdint.h>

#define RECORDER_CAPSULE "dynajit.core.process._recorder.functions"

/* What an event is; the numbers are those of `Kind` in dynajit/profiler/events.py. */
enum {
    RECORD_ROW,      /* a row of the op table, or the name of a write in place */
    RECORD_PROGRAM,  /* the native call of a compiled graph */
    RECORD_KERNEL,   /* one kernel of it, by number */
    RECORD_NODE,     /* a node of the tape in backward */
    RECORD_NAMED,    /* what the program named: record_function, steps */
    RECORD_COMPILE   /* a function is compiled; rows within are none of the program's */
};

typedef struct {
    int is_on;
    int64_t (*now)(void); /* nanoseconds of CLOCK_MONOTONIC; needs no GIL */
    /* The place of a new event within the one that is open in this thread, or -1: none is
     * recorded. Never fails; `operands` may be NULL. */
    int64_t (*begin)(int kind, PyObject *what, PyObject *operands);
    void (*end)(int64_t place);
    /* An event within the open one, which is over. */
    void (*add)(int kind, PyObject *what, int number, int64_t begin, int64_t end);
    /* Bytes were taken (or given back, below 0). */
    void (*held)(int64_t bytes);
} Recorder;

#endif

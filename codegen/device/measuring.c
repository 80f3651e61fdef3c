/* How long steps and whole runs take, and the fastest algorithms of products. See program.h. */
#include "program.h"

static int measure_products(Run *run) {
    PlanObject *plan = run->plan;
    for (Py_ssize_t i = 0; i < plan->product_count; i++)
        if (product_tune(run, &plan->products[i], run->prepared[i]) < 0) return -1;
    return 0;
}

static int between(Run *run, void *const *events, float *milliseconds) {
    run->failed = "cuEventElapsedTime";
    run->code = run->plan->module->driver->call.event_elapsed(milliseconds, events[0], events[1]);
    return run->code ? -1 : 0;
}

/* Runs one after the other, between two events. */
static int measure_runs(Run *run, Measure *measure, void *const *events) {
    const DriverFunctions *call = &run->plan->module->driver->call;
    run->failed = "cuEventRecord";
    if ((run->code = call->event_record(events[0], run->stream))) return -1;
    for (int i = 0; i < measure->repeats; i++)
        if (plan_enqueue(run, 0, run->plan->step_count) < 0) return -1;
    run->failed = "cuEventRecord";
    if ((run->code = call->event_record(events[1], run->stream))) return -1;
    run->failed = "cuEventSynchronize";
    if ((run->code = call->event_synchronize(events[1]))) return -1;
    if (between(run, events, &measure->milliseconds) < 0) return -1;
    measure->milliseconds /= (float)measure->repeats;
    return 0;
}

/* Each step by itself, in order, as often as there are repeats: what it reads is there when it runs,
 * and later steps have not yet put something else in its place. */
static int measure_steps(Run *run, Measure *measure, void *const *events) {
    PlanObject one = *run->plan; /* a plan of a single step */
    Run alone = *run;
    Measure each = {measure->repeats, 0, NULL, 0};
    alone.plan = &one;
    alone.mark = NULL;
    one.step_count = 1;
    for (Py_ssize_t i = 0; i < run->plan->step_count; i++) {
        one.steps = run->plan->steps + i;
        if (measure_runs(&alone, &each, events) < 0) {
            run->failed = alone.failed;
            run->code = alone.code;
            run->is_product_code = alone.is_product_code;
            return -1;
        }
        measure->by_step[i] = each.milliseconds;
    }
    return 0;
}

int measured(Run *run, Measure *measure) {
    const DriverFunctions *call = &run->plan->module->driver->call;
    void *events[2] = {NULL, NULL};
    int done = 0;
    if (plan_enqueue(run, 0, run->plan->step_count) < 0) return -1; /* operands are there; code is loaded */
    if (measure->is_tuning && measure_products(run) < 0) return -1;
    run->failed = "cuEventCreate";
    for (int i = 0; i < 2 && !run->code; i++)
        run->code = call->event_create(&events[i], EVENT_DEFAULT);
    if (run->code) done = -1;
    if (!done && measure->repeats) done = measure_runs(run, measure, events);
    if (!done && measure->by_step) done = measure_steps(run, measure, events);
    for (int i = 0; i < 2; i++)
        if (events[i]) call->event_destroy(events[i]);
    return done;
}

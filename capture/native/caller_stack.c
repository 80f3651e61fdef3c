/* The arguments of a call on the stack of the calling frame. See caller_stack.h.
 *
 * They are the interpreter's own references where it makes the call itself: the callable lies
 * below them. Or they are in a tuple that only that stack holds, of a call with *.
 */
#include "caller_stack.h"

#if PY_VERSION_HEX >= 0x030E0000
#include <opcode_ids.h>
#endif

#if PY_VERSION_HEX < 0x030E0000
#define FIRST_OWNER_IN_C FRAME_OWNED_BY_CSTACK
#else
#define FIRST_OWNER_IN_C FRAME_OWNED_BY_INTERPRETER
#endif

/* The Python frame that called a frame, or NULL. */
static _PyInterpreterFrame *
calling_frame(_PyInterpreterFrame *frame)
{
    do {
        frame = frame->previous;
#if PY_VERSION_HEX >= 0x030C0000
    } while (frame != NULL && frame->owner >= FIRST_OWNER_IN_C);
#else
    } while (0);
#endif
    return frame;
}

void
release_all(PyObject **held, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_SETREF(held[i], Py_NewRef(Py_None));
    }
}

/* Whether a tuple that only the stack holds has these items. */
static int
has_items(PyObject *tuple, PyObject **items, Py_ssize_t count)
{
    return PyTuple_CheckExact(tuple) && Py_REFCNT(tuple) == 1 && PyTuple_GET_SIZE(tuple) == count
           && ((PyTupleObject *)tuple)->ob_item == items;
}

#if PY_VERSION_HEX < 0x030E0000

/* Calls of functions with * keep their tuple on 3.11, too: there it is not looked for. */
static int
is_held_by(_PyInterpreterFrame *caller, PyObject *callable, PyObject **first, Py_ssize_t count)
{
    PyCodeObject *code = FRAME_CODE(caller);
    PyObject **bottom = (PyObject **)caller->localsplus + code->co_nlocalsplus;
    PyObject **top = bottom + code->co_stacksize;
    if (first > bottom && first + count <= top) { /* the object of a method is the first */
        return first[-1] == callable
               || (first > bottom + 1 && first[-1] == NULL && first[-2] == callable);
    }
    if (PY_VERSION_HEX < 0x030C0000 || count == 0) {
        return 0;
    }
    PyObject *tuple = (PyObject *)((char *)first - offsetof(PyTupleObject, ob_item));
    while (bottom < top && *bottom != tuple) {
        bottom++;
    }
    return bottom < top && has_items(tuple, first, count);
}

void
release_on_stack(_PyInterpreterFrame *frame, PyObject *callable, PyObject **held, Py_ssize_t count)
{
    _PyInterpreterFrame *caller = calling_frame(frame);
    if (caller != NULL && is_held_by(caller, callable, held, count)) {
        release_all(held, count);
    }
}

int
is_lent_by_caller(PyObject *object)
{
    return 0;
}

#else /* 3.14: what is called gets a copy of the references, and the stack may borrow */

static PyObject *
object_in(_PyStackRef slot)
{
    return PyStackRef_AsPyObjectBorrow(slot);
}

static _PyStackRef *
stack_bottom(_PyInterpreterFrame *frame)
{
    return frame->localsplus + FRAME_CODE(frame)->co_nlocalsplus;
}

/* Arguments of a call whose last one lies below `top`. The object of a method stays: after the
 * call the interpreter lets go of it without looking at the stack again. */
static void
release_slots(_PyStackRef *bottom, _PyStackRef *top, int pushed, PyObject *callable,
              PyObject **held, Py_ssize_t count)
{
    _PyStackRef *first = top - pushed;
    if (first - bottom < 2 || object_in(first[-2]) != callable) {
        return;
    }
    int has_self = !PyStackRef_IsNull(first[-1]);
    if (pushed + has_self != count) {
        return;
    }
    for (int i = 0; i < pushed; i++) {
        if (object_in(first[i]) != held[i + has_self]) {
            return;
        }
    }
    for (int i = 0; i < pushed; i++) {
        _PyStackRef before = first[i];
        first[i] = PyStackRef_None;
        PyStackRef_CLOSE(before);
    }
}

void
release_on_stack(_PyInterpreterFrame *frame, PyObject *callable, PyObject **held, Py_ssize_t count)
{
    _PyInterpreterFrame *caller = calling_frame(frame);
    if (caller == NULL || caller->stackpointer == NULL) {
        return;
    }
    _PyStackRef *bottom = stack_bottom(caller), *top = caller->stackpointer;
    int pushed = caller->instr_ptr->op.arg;
    switch (caller->instr_ptr->op.code) {
    case CALL: /* and what is special about other callables than ours */
    case CALL_ALLOC_AND_ENTER_INIT:
    case CALL_BOUND_METHOD_EXACT_ARGS:
    case CALL_BOUND_METHOD_GENERAL:
    case CALL_BUILTIN_CLASS:
    case CALL_BUILTIN_FAST:
    case CALL_BUILTIN_FAST_WITH_KEYWORDS:
    case CALL_BUILTIN_O:
    case CALL_NON_PY_GENERAL:
    case CALL_PY_EXACT_ARGS:
    case CALL_PY_GENERAL:
        release_slots(bottom, top, pushed, callable, held, count);
        break;
    case CALL_KW:
    case CALL_KW_BOUND_METHOD:
    case CALL_KW_NON_PY:
    case CALL_KW_PY: /* the names are on top */
        release_slots(bottom, top - 1, pushed, callable, held, count);
        break;
    case CALL_FUNCTION_EX: /* callable, empty, tuple, dict or empty */
        if (top - bottom >= 4 && object_in(top[-4]) == callable
            && PyStackRef_RefcountOnObject(top[-2]) && has_items(object_in(top[-2]), held, count)) {
            release_all(held, count);
        }
        break;
    default: /* other instructions call through C functions, which may need what they got */
        break;
    }
}

int
is_lent_by_caller(PyObject *object)
{
    _PyInterpreterFrame *frame = CURRENT_FRAME(PyThreadState_Get());
    if (frame == NULL || frame->owner >= FIRST_OWNER_IN_C || frame->stackpointer == NULL) {
        return 0;
    }
    for (_PyStackRef *slot = stack_bottom(frame); slot < frame->stackpointer; slot++) {
        if (!PyStackRef_IsTaggedInt(*slot) && !PyStackRef_RefcountOnObject(*slot)
            && object_in(*slot) == object) {
            return 1;
        }
    }
    return 0;
}

#endif

"""Graph breaks: the closed table of reasons, and the exceptions that carry them.

Every place that cannot go on names a row of `TABLE`; no other reason exists. A row says what
happened, in words for the user, what to change, and whether no compiler could do better.
Raised inside the executor as `GraphBreak`, recorded as `BreakRecord`, and turned into
`GraphBreakError` under `fullgraph=True`.
"""

from collections.abc import Iterator
from typing import Any, Final

from dynajit.core.errors import GraphBreakError
from dynajit.core.location import Location
from dynajit.core.records import record


@record
class Reason:
    """One row.

    Args:
        name: identifier, used by tests and reports.
        explanation: what happened.
        hint: what the user can change.
        fundamental: True where the program itself asks for the value of a tensor, or for an
            effect that has to happen at that point.
        leaves_frame: the frame goes on as plain Python; else what follows is compiled, too.
    """

    name: str
    explanation: str
    hint: str
    fundamental: bool = False
    leaves_frame: bool = False


@record
class BreakRecord:
    """One break that happened.

    Args:
        reason: the row.
        detail: the particulars, such as the name of the function called.
        location: the user's line in the innermost frame.
        inline_stack: the calls that led there, outermost first.
    """

    reason: Reason
    detail: str
    location: Location
    inline_stack: tuple[Location, ...] = ()

    @property
    def hint(self) -> str:
        """What to change."""
        return self.reason.hint

    @property
    def follows(self) -> bool:
        """True if it is only there because of another break: reports count it apart."""
        return self.reason is LOOP_GOES_ON

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        lines = [f"{self.reason.explanation}{detail}", f"  at {self.location}"]
        caret = self.location.caret()
        if caret:
            lines.append("  " + caret.replace("\n", "\n  "))
        lines += [f"  called from {place}" for place in reversed(self.inline_stack)]
        lines.append(f"Hint: {self.reason.hint}")
        return "\n".join(lines)

    def error(self) -> GraphBreakError:
        """The error that `fullgraph=True` raises."""
        return GraphBreakError(f"fullgraph=True met code that cannot be captured.  {self}")


class GraphBreak(Exception):
    """Raised while executing symbolically; unwinds to the executor's loop."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason.name, detail)
        self.reason = reason
        self.detail = detail


class SkipFrame(Exception):
    """Raised when the whole frame must run as plain Python.

    Args:
        reason: one sentence for reports.
        permanent: no other call could do better.
        even_whole: so it is where no break is allowed; the next call is captured.
        guards: if there are some, so it is for all calls for which they hold.
        may_be_nest: all of the frame may be one loop nest over lists of numbers.
    """

    def __init__(
        self,
        reason: str,
        permanent: bool = True,
        even_whole: bool = False,
        guards: tuple[Any, ...] = (),
        may_be_nest: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.permanent = permanent
        self.even_whole = even_whole
        self.guards = guards
        self.may_be_nest = may_be_nest


class Table:
    """The rows by name. Closed: filled in this module only."""

    def __init__(self) -> None:
        self._rows: dict[str, Reason] = {}

    def add(
        self,
        name: str,
        explanation: str,
        hint: str,
        fundamental: bool = False,
        leaves_frame: bool = False,
    ) -> Reason:
        """Enter a row."""
        assert name not in self._rows, name
        row = Reason(name, explanation, hint, fundamental, leaves_frame)
        self._rows[name] = row
        return row

    def __iter__(self) -> Iterator[Reason]:
        return iter(self._rows.values())

    def __getitem__(self, name: str) -> Reason:
        return self._rows[name]

    def __len__(self) -> int:
        return len(self._rows)


TABLE: Final = Table()

DATA_DEPENDENT_BRANCH: Final = TABLE.add(
    "data_dependent_branch",
    "a branch depends on the contents of a tensor",
    "Use dj.where(condition, a, b), or compute the condition from shapes or Python numbers.",
    fundamental=True,
)
DATA_DEPENDENT_VALUE: Final = TABLE.add(
    "data_dependent_value",
    "Python asks for the contents of a tensor",
    "Keep the value in a tensor; call item(), tolist(), numpy() outside the compiled function.",
    fundamental=True,
)
OUTPUT: Final = TABLE.add(
    "output",
    "input or output has to happen at this very point",
    "Move input() and files out of the function; print a tensor with a history as x.detach().",
    fundamental=True,
)
UNKNOWN_CALL: Final = TABLE.add(
    "unknown_call",
    "a function written in C, or not known to the compiler, is called",
    "Call it before or after the compiled part, or replace it by tensor operations.",
)
UNSUPPORTED_OPERATION: Final = TABLE.add(
    "unsupported_operation",
    "an operation on these Python objects is not modelled",
    "Rewrite the line with ordinary containers and numbers, or move it out.",
)
LOOP_GOES_ON: Final = TABLE.add(
    "loop_goes_on",
    "a loop that was broken goes on with its real iterator",
    "Nothing is wrong here: remove the other break of this loop, and the loop is captured whole.",
    fundamental=True,
)
UNSUPPORTED_ATTRIBUTE: Final = TABLE.add(
    "unsupported_attribute",
    "an attribute cannot be read or written symbolically",
    "Read or write it outside the compiled function, and pass the value as an argument.",
)
UNSUPPORTED_INSTRUCTION: Final = TABLE.add(
    "unsupported_instruction",
    "a bytecode instruction is not supported",
    "Move the statement out of the compiled function.",
)
UNSUPPORTED_CODE: Final = TABLE.add(
    "unsupported_code",
    "a function of this kind cannot be inlined",
    "Call it outside the compiled function; coroutines (async def) run as plain Python.",
)
TENSOR_METHOD: Final = TABLE.add(
    "tensor_method",
    "an attribute or method of a tensor has no graph form",
    "Use an operation of dynajit.ops, or call it outside the compiled function.",
)
TENSOR_MUTATION: Final = TABLE.add(
    "tensor_mutation",
    "a tensor is changed in place that other tensors may share memory with",
    "Write y = x + 1 instead of x += 1, or work on x.clone().",
)
TENSOR_FAILURE: Final = TABLE.add(
    "tensor_failure",
    "an operation refuses its operands",
    "The error is raised by the real call; fix the shapes, dtypes or arguments named there.",
)
CUSTOM_OPERATOR: Final = TABLE.add(
    "custom_operator",
    "an operator of the program's own cannot be part of a graph",
    "Say what its results are like (register_fake), and write fake and derivative as functions of "
    "tensors that never ask for contents.",
)
USER_EXCEPTION: Final = TABLE.add(
    "user_exception",
    "an exception leaves the captured code that only plain Python can make",
    "Nothing to do if it is meant; otherwise fix its cause, or raise it with simpler arguments.",
    fundamental=True,
)
GLOBAL_STATE: Final = TABLE.add(
    "global_state",
    "a call changes the state of the interpreter or the library",
    "Make the call outside the compiled function.",
)
AUTOGRAD_CALL: Final = TABLE.add(
    "autograd_call",
    "gradients are asked for, or a leaf is made, in a way that a graph cannot hold",
    "Call backward() on what the function itself has computed, and make leaves that outlive it "
    "outside.",
)
TRANSFORM: Final = TABLE.add(
    "transform",
    "a transform of `func` is called in a way that has no form in graphs",
    "Give it tensors, and a function that neither writes to them nor returns them.",
)
WRITTEN_DERIVATIVE: Final = TABLE.add(
    "written_derivative",
    "a call of an autograd.Function has no graph form",
    "Let forward and backward compute new tensors only: no writes to other objects, no errors.",
)
MAPPED_CALL: Final = TABLE.add(
    "mapped_call",
    "a call of a function that vmap made has no graph form",
    "Let the mapped function compute new tensors only, of samples that the graph knows.",
)
UNKNOWN_HASH: Final = TABLE.add(
    "unknown_hash",
    "an object whose hash only plain Python knows is used as a key",
    "Use an int, a string or another constant as the key.",
)
OBJECT_ENDS: Final = TABLE.add(
    "object_ends",
    "an object with a finalizer, a weak reference's callback or a `finally` is made or let go",
    "Make such objects outside the compiled function, and keep them alive for longer than it runs.",
    fundamental=True,
)
LIMIT: Final = TABLE.add(
    "limit",
    "the captured code is too long, every round of its loops counted",
    "Compile the body of the loop as a function, or use one operation on the whole tensor.",
)
LONG_LOOP: Final = TABLE.add(
    "long_loop",
    "a loop of many turns, which are not alike, would make the graph too long",
    "Let turns do the same, which makes them one loop of the graph, or use operations on whole "
    "tensors; fullgraph=True captures every turn.",
)
PLAIN_LOOP: Final = TABLE.add(
    "plain_loop",
    "a loop of many short turns, which are not alike, is left to plain Python",
    "Let turns do the same, which makes them one loop of the graph, or use operations on whole "
    "tensors; fullgraph=True captures every turn.",
    leaves_frame=True,
)
CHANGES: Final = TABLE.add(
    "changes",
    "a value is needed that was another one in many calls",
    "Pass what changes as a tensor or a number, or keep it out of the compiled function.",
    fundamental=True,
)
RECURSION: Final = TABLE.add(
    "recursion",
    "calls are nested too deeply to inline",
    "Write the recursion as a loop, or compile the function that it calls.",
)
CLASS_DEFINITION: Final = TABLE.add(
    "class_definition",
    "a class is defined inside the captured code",
    "Define the class outside the compiled function.",
)
IMPORT: Final = TABLE.add(
    "import",
    "a module is imported for the first time",
    "Import at the top of the file.",
)
REQUESTED: Final = TABLE.add(
    "requested",
    "the program asks for a break here",
    "Remove the call of dynajit.graph_break() or the disable decorator.",
    fundamental=True,
)

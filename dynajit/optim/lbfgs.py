"""L-BFGS: the quasi-Newton method of limited memory, with or without a line search.

Contract: as `torch.optim.LBFGS`: one group, and `step` takes a closure that it calls several times.

Sources: J. Nocedal, S. Wright, Numerical Optimization, algorithms 7.4 and 3.5.
"""

from collections.abc import Callable
from typing import Any

from dynajit.core.errors import InvalidValueError, UnsupportedError
from dynajit.eager.modes.grad_mode import enable_grad, no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import cat
from dynajit.optim.optimizer import Optimizer
from dynajit.optim.options import check_options
from dynajit.optim.wolfe import Point, strong_wolfe

LEAST_CURVATURE = 1e-10
"""Steps along which the gradient rises by less say nothing about the curvature."""


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last `history_size` changes of gradient and parameters.

    Args:
        lr: length of a step without a line search, and where a line search begins.
        max_iter: iterations of one step.
        max_eval: evaluations of one step; None: 1.25 times `max_iter`.
        tolerance_grad: stop at gradients whose elements are smaller.
        tolerance_change: stop at changes of parameters or loss that are smaller.
        history_size: see above.
        line_search_fn: None or "strong_wolfe".

    Raises:
        InvalidValueError: more than one group, or a negative rate.
        UnsupportedError: a complex parameter.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_options(lr=lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise InvalidValueError(
                "LBFGS doesn't support per-parameter options (parameter groups)"
            )
        self._params: list[Tensor] = self.param_groups[0]["params"]
        if any(parameter.is_complex() for parameter in self._params):
            raise UnsupportedError("optimisers take real parameters: a complex one was given")

    def _flat_gradient(self) -> Tensor:
        return cat(
            [
                (p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1))
                for p in self._params
            ]
        )

    def _move(self, length: Any, direction: Tensor) -> None:
        """Add `length * direction` to the parameters."""
        start, alpha = 0, float(length)
        for parameter in self._params:
            end = start + parameter.numel()
            parameter.add_(direction[start:end].view(parameter.shape), alpha=alpha)
            start = end

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[float, Tensor]:
        with enable_grad():
            loss = closure()
        return float(loss), self._flat_gradient()

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:
        """Up to `max_iter` iterations.

        Args:
            closure: clears the gradients, evaluates the model, calls backward, returns the loss.

        Returns:
            The loss before the first iteration.
        """
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with enable_grad():
            first = closure()
        loss, gradient = float(first), self._flat_gradient()
        evaluations = 1
        state["func_evals"] += 1
        if float(gradient.abs().max()) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, gradient, group["history_size"])
            before = loss
            state["prev_flat_grad"], state["prev_loss"] = gradient.clone(), loss
            length = group["lr"]
            if state["n_iter"] == 1:
                length = min(1.0, 1.0 / float(gradient.abs().sum())) * length
            state["d"], state["t"] = direction, length
            slope = gradient.dot(direction)
            if float(slope) > -group["tolerance_change"]:
                break
            is_last, used = iteration == group["max_iter"], 0
            if group["line_search_fn"] is not None:
                here = Point(0.0, loss, gradient, float(slope))
                best, used = self._search(closure, state, here, group["max_eval"] - evaluations)
                loss, gradient = best.loss, best.gradient
            else:
                self._move(length, direction)
                if not is_last:  # else nobody would look at the loss
                    loss, gradient = self._evaluate(closure)
                    used = 1
            evaluations += used
            state["func_evals"] += used
            if is_last or evaluations >= group["max_eval"]:
                break
            if float(gradient.abs().max()) <= group["tolerance_grad"]:
                break
            moved = float((direction * float(state["t"])).abs().max())
            if moved <= group["tolerance_change"] or abs(loss - before) < group["tolerance_change"]:
                break
        return first

    def _direction(self, state: dict[str, Any], gradient: Tensor, history_size: int) -> Tensor:
        """Minus the approximate inverse Hessian times the gradient."""
        if state["n_iter"] == 1:
            state["old_dirs"], state["old_stps"], state["ro"] = [], [], []
            state["H_diag"] = 1
            return gradient.neg()
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change = gradient - state["prev_flat_grad"]
        step = state["d"] * float(state["t"])
        curvature = change.dot(step)
        if float(curvature) > LEAST_CURVATURE:
            if len(changes) == history_size:
                for kept in (changes, steps, inverses):
                    kept.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        factors = state.setdefault("al", [None] * history_size)
        rest = gradient.neg()
        for i in reversed(range(len(changes))):
            factors[i] = steps[i].dot(rest) * inverses[i]
            rest.sub_(changes[i] * factors[i])
        found = rest * state["H_diag"]
        for i in range(len(changes)):
            beta = changes[i].dot(found) * inverses[i]
            found.add_(steps[i] * (factors[i] - beta))
        return found

    def _search(
        self, closure: Callable[[], Any], state: dict[str, Any], here: Point, most: int
    ) -> tuple[Point, int]:
        """Go to the best point along the direction; returns it, and the evaluations."""
        if self.param_groups[0]["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        direction = state["d"]
        start = [parameter.clone() for parameter in self._params]

        def at(length: float) -> Point:
            self._move(length, direction)
            loss, gradient = self._evaluate(closure)
            for parameter, old in zip(self._params, start, strict=True):
                parameter.copy_(old)
            return Point(length, loss, gradient, float(gradient.dot(direction)))

        reach = float(direction.abs().max())
        best, used = strong_wolfe(at, here, float(state["t"]), reach, most)
        state["t"] = best.step
        self._move(best.step, direction)
        return best, used

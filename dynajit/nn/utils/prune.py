"""Pruning by masks: a parameter is replaced by its product with a mask of zeros and ones.

Contract: module.name becomes name_orig (the parameter, which is trained) times name_mask (a
buffer), computed again before every forward by a hook, with PyTorch's state dicts. Pruning again
acts on what the mask left.
"""

import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dynajit.core.errors import ArgumentError, BoundsError, ExpectationError, InvalidValueError
from dynajit.core.process import late
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.module import Module
from dynajit.nn.utils.gradients_and_vectors import parameters_to_vector
from dynajit.ops.functions import norm, ones_like, rand, topk, zeros_like


class BasePruningMethod:
    """Base of methods, and the hook of the module: derived classes define `compute_mask`.

    `PRUNING_TYPE` says what a method is given where something is pruned already: "unstructured":
    the elements that are left, in a row; "structured": the slices along `self.dim` that are not
    all zero; "global": everything.
    """

    PRUNING_TYPE = "global"
    _tensor_name: str = ""
    dim: int  # where PRUNING_TYPE is "structured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for a tensor of scores, zero also where `default_mask` is."""
        raise NotImplementedError(f"{type(self).__name__}.compute_mask(t, default_mask) is missing")

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter times its mask.

        Raises:
            ExpectationError: the method was not applied to a parameter.
        """
        if not self._tensor_name:
            raise ExpectationError(f"{type(self).__name__}: no parameter is pruned; apply it first")
        original = getattr(module, f"{self._tensor_name}_orig")
        mask = getattr(module, f"{self._tensor_name}_mask")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> "BasePruningMethod":
        """Prune `module.name` by `cls(*args, **kwargs)`; where that fails nothing has changed.

        Args:
            importance_scores: what the mask is computed from, of the parameter's shape; None: the
                parameter as it is now.

        Raises:
            ExpectationError: the scores have another shape.
            InvalidValueError, TypeError, ...: as the method says.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        now = getattr(module, name)
        scores = _scores_of(now, importance_scores)
        number, before = _hook_of(module, name)
        if before is None:
            with no_grad():
                mask = method.compute_mask(scores, default_mask=ones_like(now))
            module.register_parameter(f"{name}_orig", now)
            del module._parameters[name]
        else:
            method = PruningContainer(*getattr(before, "_methods", (before,)), method)
            with no_grad():
                mask = method.compute_mask(scores, getattr(module, f"{name}_mask").clone())
            del module._forward_pre_hooks[number]
        module.register_buffer(f"{name}_mask", mask)
        method(module, None)
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Any = None, importance_scores: Any = None) -> Tensor:
        """`t` times the mask that its scores give.

        Raises:
            ExpectationError: the scores have another shape.
        """
        scores = _scores_of(t, importance_scores)
        ones = ones_like(t) if default_mask is None else default_mask
        with no_grad():
            mask = self.compute_mask(scores, default_mask=ones)
        return t * mask

    def remove(self, module: Module) -> None:
        """Make the pruned values the parameter; what was pruned stays zero."""
        name, pruned = self._tensor_name, self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        parameter = module._parameters.pop(f"{name}_orig")
        del module._buffers[f"{name}_mask"]
        parameter.data = pruned.detach()
        setattr(module, name, parameter)


def _scores_of(t: Tensor, given: Any) -> Tensor:
    if given is None:
        return t.detach()
    if tuple(given.shape) != tuple(t.shape):
        raise ExpectationError(
            f"prune: importance_scores have shape {list(given.shape)}.  Expected the parameter's, "
            f"{list(t.shape)}."
        )
    return given.detach()


def _hook_of(module: Module, name: str) -> tuple[int, BasePruningMethod | None]:
    """The number and the method that prunes `module.name`, if one does."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return number, hook
    return -1, None


class PruningContainer(BasePruningMethod):
    """Several methods, one after the other, on one parameter."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Append a method of the same parameter.

        Raises:
            ArgumentError: it is no method.
            InvalidValueError: it prunes another parameter.
        """
        if not isinstance(method, BasePruningMethod):
            raise ArgumentError(f"{type(method)} is no BasePruningMethod")
        if self._methods and method._tensor_name != self._tensor_name:
            raise InvalidValueError(
                f"PruningContainer: the methods prune {self._tensor_name!r}, the new one "
                f"{method._tensor_name!r}.  One container has one parameter."
            )
        self._tensor_name = method._tensor_name
        self._methods += (method,)

    def __len__(self) -> int:
        return len(self._methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The last method's mask of what `default_mask` leaves."""
        method = self._methods[-1]
        mask = default_mask.to(dtype=t.dtype, copy=True)
        if method.PRUNING_TYPE == "unstructured":
            left: Any = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim if method.dim >= 0 else method.dim + t.dim()
            others = [d for d in range(t.dim()) if d != dim]
            left = (*(slice(None),) * dim, default_mask.sum(dim=others) != 0)
        elif method.PRUNING_TYPE == "global":
            left = ...
        else:
            raise InvalidValueError(f"there is no PRUNING_TYPE {method.PRUNING_TYPE!r}")
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing: a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class CustomFromMask(BasePruningMethod):
    """A mask that is given."""

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.to(dtype=default_mask.dtype)


class _ByAmount(BasePruningMethod):
    """Base of methods that prune a number of elements or slices, or a fraction of them."""

    def __init__(self, amount: Any) -> None:
        is_real = isinstance(amount, numbers.Real)
        if not is_real:
            raise ArgumentError(f"prune: expected an int or a float as amount, but got {amount!r}")
        if amount < 0 or (amount > 1 and not isinstance(amount, numbers.Integral)):
            raise InvalidValueError(
                f"prune: amount={amount}.  Expected a fraction from 0 to 1, or a count."
            )
        self.amount: Any = amount

    def count_of(self, total: int) -> int:
        """How many of `total` are pruned."""
        is_count = isinstance(self.amount, numbers.Integral)
        count = int(self.amount) if is_count else round(self.amount * total)
        if count > total:
            raise InvalidValueError(f"prune: amount={count}, but there are only {total} to prune.")
        return count


class _Elements(_ByAmount):
    PRUNING_TYPE = "unstructured"
    scores: Callable[[Tensor], Tensor]  # the least are pruned

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        mask = default_mask.clone().reshape(-1)
        count = self.count_of(t.numel())
        if count:
            mask[topk(self.scores(t).reshape(-1), count, largest=False)[1]] = 0
        return mask.reshape(default_mask.shape)


class RandomUnstructured(_Elements):
    """Prunes elements at random."""

    def scores(self, t: Tensor) -> Tensor:
        """Equal chances."""
        return rand(t.shape)


class L1Unstructured(_Elements):
    """Prunes the elements of the smallest absolute values."""

    def scores(self, t: Tensor) -> Tensor:
        """Absolute values."""
        return t.abs()


class _Slices(_ByAmount):
    PRUNING_TYPE = "structured"
    scores: Callable[[Tensor, int], Tensor]  # of the slices along a dim; the least are pruned

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.dim() < 2:
            raise InvalidValueError(f"prune: slices of a tensor of shape {list(t.shape)}: too flat")
        if not -t.dim() <= self.dim < t.dim():
            raise BoundsError(f"prune: dim={self.dim}, but the tensor has {t.dim()} dims")
        dim, total = self.dim % t.dim(), t.shape[self.dim]
        count = self.count_of(total)
        if count == 0:
            return default_mask
        mask = zeros_like(t)
        mask[(*(slice(None),) * dim, topk(self.scores(t, dim), total - count)[1])] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Slices):
    """Prunes slices along `dim` at random."""

    def scores(self, t: Tensor, dim: int) -> Tensor:
        """Equal chances."""
        return rand(t.shape[dim])


class LnStructured(_Slices):
    """Prunes the slices along `dim` with the smallest norms of order `n`."""

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Tensor, dim: int) -> Tensor:
        """Norms."""
        return norm(t, p=self.n, dim=[d for d in range(t.dim()) if d != dim])


def identity(module: Module, name: str) -> Module:
    """Give `module.name` a mask of ones; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prune a fraction (float) or a number (int) of elements at random; returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: Any, importance_scores: Any = None
) -> Module:
    """Prune the elements of the smallest absolute values (or scores); returns the module."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prune slices along `dim` at random; returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
) -> Module:
    """Prune the slices along `dim` with the smallest norms of order `n`; returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune by a mask that is given; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters together, (module, name) each, by one unstructured method.

    Args:
        importance_scores: from (module, name) to scores; what is missing is the parameter itself.
        kwargs: of the method, such as `amount`.

    Raises:
        ArgumentError: `parameters` is no iterable, the scores are no dict, or the method is not
            unstructured.
    """
    if not isinstance(parameters, Iterable):
        raise ArgumentError("global_unstructured: expected (module, name) pairs as parameters")
    given = {} if importance_scores is None else importance_scores
    if not isinstance(given, dict):
        raise ArgumentError("global_unstructured: expected a dict as importance_scores")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise ArgumentError(
            f"global_unstructured: {pruning_method.__name__} is {method.PRUNING_TYPE}.  Expected "
            "a method whose PRUNING_TYPE is 'unstructured'."
        )
    pairs = list(parameters)
    now = [getattr(module, name) for module, name in pairs]
    with no_grad():
        scores = [given.get(pair, x) for pair, x in zip(pairs, now, strict=True)]
        masks = [
            getattr(module, f"{name}_mask", ones_like(x))
            for (module, name), x in zip(pairs, now, strict=True)
        ]
        vectors = parameters_to_vector(scores), parameters_to_vector(masks)
        parts = PruningContainer(method).compute_mask(*vectors).split([x.numel() for x in now])
    for (module, name), x, part in zip(pairs, now, parts, strict=True):
        custom_from_mask(module, name, part.reshape(x.shape))


def remove(module: Module, name: str) -> Module:
    """Make the pruned values of `module.name` its parameter again; returns the module.

    Raises:
        InvalidValueError: it is not pruned.
    """
    number, hook = _hook_of(module, name)
    if hook is None:
        raise InvalidValueError(f"prune.remove: {name!r} of this module is not pruned")
    hook.remove(module)
    del module._forward_pre_hooks[number]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one within, is pruned."""
    hooks = (hook for inner in module.modules() for hook in inner._forward_pre_hooks.values())
    return any(isinstance(hook, BasePruningMethod) for hook in hooks)


__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

late.show(__name__)

"""Runs all programs with one library and writes what they give: started by `test_packages`.

Usage: `python child.py torch|dynajit FOLDER [PROGRAM...]`; without names it runs all. PyTorch comes
first and leaves the states that the other run starts from. FOLDER/<library>/<program>.npz holds
arrays by name, FOLDER/<library>.json per program None, or the words of the error.
"""

import importlib.util
import json
import sys
import traceback
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 3


def _empty_class(attribute: str) -> type:
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    return type(attribute, (), {})


def _stand_in_for_torchvision() -> None:
    """Empty modules, for packages that import it where nothing here uses it."""
    for unused in ("torchvision", "torchvision.transforms"):
        module: Any = types.ModuleType(unused)
        module.__getattr__ = _empty_class
        sys.modules[unused] = module
    sys.modules["torchvision"].transforms = sys.modules["torchvision.transforms"]  # type: ignore


def library(name: str) -> Any:
    """PyTorch, or dynajit under its name."""
    if name == "dynajit":
        import dynajit

        sys.modules["torch"] = dynajit
    if importlib.util.find_spec("torchvision") is None:
        _stand_in_for_torchvision()
    import torch

    if name == "torch":  # which may be a build that cannot load torchvision's own library
        for operator in ("nms", "qnms"):
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{operator}", schema)
    return torch


def tensors(torch: Any, arrays: tuple[np.ndarray, ...]) -> list[Any]:
    return [torch.from_numpy(array.copy()) for array in arrays]


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def loss_of(results: Any) -> Any:
    return sum((r.float() ** 2).mean() for r in listed(results) if r.requires_grad)


def run(torch: Any, build: Any, state: Path, load: bool, compiled: bool) -> dict[str, np.ndarray]:
    """Results, loss, gradients, and the state after a few steps of training."""
    torch.manual_seed(0)
    program = build(torch)
    model = program.model.train()
    if load:
        with np.load(state) as saved:
            found = {name: torch.from_numpy(saved[name]) for name in saved.files}
        model.load_state_dict(found)
    elif not state.exists():
        np.savez(state, **{k: v.detach().numpy() for k, v in model.state_dict().items()})
    inputs = tensors(torch, program.inputs)
    call = program.call
    if compiled:
        call = program.compiled(program) if program.compiled else torch.compile(call)
    make = program.optimizer or (lambda parameters: torch.optim.SGD(parameters, lr=1e-2))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = make(trained) if trained else None
    found = {}
    for step in range(STEPS):
        results = call(model, *inputs)
        if step == 0:
            for i, result in enumerate(listed(results)):
                found[f"result {i}"] = result.detach().numpy()
        if optimizer is None or not any(r.requires_grad for r in listed(results)):
            break
        loss = loss_of(results)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            found["loss"] = loss.detach().numpy()
            for name, parameter in model.named_parameters():
                if parameter.grad is not None:
                    found[f"gradient of {name}"] = parameter.grad.numpy().copy()
        optimizer.step()
    for name, value in model.state_dict().items():
        found[f"trained {name}"] = value.detach().numpy()
    if compiled and program.is_whole:
        reasons = torch.compile_stats()["reasons"]
        assert not reasons, "\n".join(reasons)
    return found


def main(name: str, folder: Path, chosen: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch = library(name)
    torch.set_num_threads(1)
    from programs import PROGRAMS

    own = folder / name
    (own / "compiled").mkdir(parents=True)
    (folder / "state").mkdir(exist_ok=True)
    errors: dict[str, str | None] = {}
    for program, build in PROGRAMS.items():
        if chosen and program not in chosen:
            continue
        state = folder / "state" / f"{program}.npz"
        modes = (False,) if name == "torch" else (False, True)
        try:
            for compiled in modes:
                if compiled:
                    torch.compiler.reset()
                load = name != "torch" and state.exists()
                found = run(torch, build, state, load, compiled)
                where = own / "compiled" if compiled else own
                np.savez(where / f"{program}.npz", **found)
            errors[program] = None
        except Exception:
            errors[program] = traceback.format_exc()
    (folder / f"{name}.json").write_text(json.dumps(errors))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])

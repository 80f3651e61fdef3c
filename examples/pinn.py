"""Physics: a network whose loss is a differential equation.

    python examples/pinn.py [--small]

A damped oscillator, u'' + 2 d u' + w^2 u = 0 with u(0) = 1 and u'(0) = 0, has the solution
e^(-d t) (cos(v t) + d / v sin(v t)) with v^2 = w^2 - d^2. The network sees the equation only: its
derivatives with respect to time are those of `autograd.grad(create_graph=True)`, and the compiled
step takes the gradient of a loss of them. Equation, gradients and update are one graph.

Source: Raissi, Perdikaris and Karniadakis, "Physics-informed neural networks", 2019.
"""

import argparse
import math

import dynajit as dj
from dynajit import nn

DAMPING = 0.5
FREQUENCY = 4.0


def solution(t: dj.Tensor) -> dj.Tensor:
    """The oscillator at the times `t`."""
    v = math.sqrt(FREQUENCY**2 - DAMPING**2)
    return dj.exp(-DAMPING * t) * (dj.cos(v * t) + DAMPING / v * dj.sin(v * t))


def slope(u: dj.Tensor, t: dj.Tensor) -> dj.Tensor:
    """du/dt at each time, itself with a gradient."""
    (found,) = dj.autograd.grad(u.sum(), t, create_graph=True)
    return found


def main() -> None:
    """Solve the equation, and compare with the formula."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--small", action="store_true", help="50 steps")
    given = parser.parse_args()
    steps = 50 if given.small else given.steps

    dj.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    )
    optimizer = dj.optim.Adam(network.parameters(), lr=3e-3)
    schedule = dj.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    def displacement(t: dj.Tensor) -> dj.Tensor:
        """Of the network, made to begin at 1 with no speed."""
        return 1 + t**2 * network(t)

    @dj.compile(fullgraph=True)
    def step(times: dj.Tensor) -> dj.Tensor:
        optimizer.zero_grad()
        t = times.detach().requires_grad_()
        u = displacement(t)
        speed = slope(u, t)
        residual = slope(speed, t) + 2 * DAMPING * speed + FREQUENCY**2 * u
        loss = (residual**2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for number in range(steps):
        loss = step(2 * dj.rand(128, 1))
        schedule.step()
        if number % 500 == 0:
            print(f"step {number:5}  residual {loss.item():.4g}")

    t = dj.linspace(0, 2, 200).reshape(-1, 1)
    with dj.no_grad():
        error = (displacement(t) - solution(t)).abs().max().item()
    print(f"residual {loss.item():.4g}, largest error {error:.4g}")
    print(step.report().summary)


if __name__ == "__main__":
    main()

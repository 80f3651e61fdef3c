"""A language model of six equal layers, as a program has it: what pages of reports are tried on."""

from typing import Any

import dynajit as dj
import dynajit.nn.functional as F
from dynajit import nn


class Attention(nn.Module):
    """Causal self-attention of several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.projections = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = self.projections(x).chunk(3, dim=-1)
        q = q.reshape(batch, length, self.heads, -1).transpose(1, 2)
        k = k.reshape(batch, length, self.heads, -1).transpose(1, 2)
        v = v.reshape(batch, length, self.heads, -1).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """Attention and two linear layers, each beside a way around them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.before_attention(x))
        return x + self.narrow(F.gelu(self.wide(self.before_mlp(x))))


class Transformer(nn.Module):
    """Words in, the logits of the next words out."""

    def __init__(self, words: int = 64, width: int = 32, heads: int = 4, layers: int = 6) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.logits = nn.Linear(width, words)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.logits(self.norm(x))


def training_loss(model: Any, tokens: Any) -> Any:
    """The mean loss of guessing each next word."""
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    if loss.item() > 100:  # Python asks for the number
        raise ValueError("the loss exploded")
    return loss * 1.0


def example() -> tuple[Any, Any]:
    """A model, and words that it is trained on, shape (2, 17)."""
    dj.manual_seed(0)
    return Transformer(), dj.randint(0, 64, (2, 17))

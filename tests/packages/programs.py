"""What is run of each package: a model, what it is called with, and a loss.

Contract: `PROGRAMS` maps a name to a function `(torch) -> Program`, where `torch` is PyTorch or the
library in its place; packages are imported inside, after that has been decided. Called by `child`,
in a process per library.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from ecosystems import ECOSYSTEMS
from program import Program, normal, words


def is_installed(name: str) -> bool:
    """Whether the package of a program is there; the larger ones may be missing."""
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is not None
    except ValueError:  # `child` stands in for it
        return False


def vision_transformer(torch: Any) -> Program:
    from vit_pytorch.vit import ViT

    model = ViT(
        image_size=16,
        patch_size=4,
        num_classes=5,
        dim=24,
        depth=2,
        heads=2,
        mlp_dim=32,
        dim_head=12,
    )
    return Program(model, (normal(2, 3, 16, 16),))


def simple_vision_transformer(torch: Any) -> Program:
    from vit_pytorch.simple_vit import SimpleViT

    model = SimpleViT(
        image_size=16,
        patch_size=4,
        num_classes=5,
        dim=24,
        depth=2,
        heads=2,
        mlp_dim=32,
        dim_head=12,
    )
    return Program(model, (normal(2, 3, 16, 16),))


def gated_mlp(torch: Any) -> Program:
    from g_mlp_pytorch import gMLP

    model = gMLP(num_tokens=32, dim=16, depth=2, seq_len=12, causal=True, attn_dim=8)
    return Program(model, (words(2, 12),))


def mixer(torch: Any) -> Program:
    from mlp_mixer_pytorch import MLPMixer

    model = MLPMixer(image_size=16, channels=3, patch_size=4, dim=16, depth=2, num_classes=5)
    return Program(model, (normal(2, 3, 16, 16),))


def perceiver(torch: Any) -> Program:
    from perceiver_pytorch import Perceiver

    model = Perceiver(
        num_freq_bands=3, depth=2, max_freq=5.0, input_channels=3, num_latents=6, latent_dim=16,
        cross_dim_head=8, latent_heads=2, latent_dim_head=8, num_classes=5,
    )  # fmt: skip
    return Program(model, (normal(2, 8, 8, 3),))


def nystromformer(torch: Any) -> Program:
    from nystrom_attention import Nystromformer

    model = Nystromformer(dim=16, dim_head=8, heads=2, depth=1, num_landmarks=4, pinv_iterations=3)
    return Program(model, (normal(1, 24, 16),))


def axial_attention(torch: Any) -> Program:
    from axial_attention import AxialAttention

    model = AxialAttention(dim=8, dim_index=1, dim_heads=4, heads=2, num_dimensions=2)
    return Program(model, (normal(2, 8, 5, 6),))


def linformer(torch: Any) -> Program:
    from linformer import LinformerLM

    model = LinformerLM(num_tokens=32, dim=16, seq_len=12, depth=2, heads=2, dim_head=8, k=4)
    return Program(model, (words(2, 12),))


def rotary_embedding(torch: Any) -> Program:
    from rotary_embedding_torch import RotaryEmbedding

    model = RotaryEmbedding(dim=8)
    return Program(model, (normal(2, 2, 6, 8),), lambda model, x: model.rotate_queries_or_keys(x))


def local_transformer(torch: Any) -> Program:
    from local_attention import LocalTransformer

    model = LocalTransformer(
        num_tokens=32, dim=16, depth=2, max_seq_len=24, causal=True, local_attn_window_size=6,
        dim_head=8, heads=2,
    )  # fmt: skip
    return Program(model, (words(2, 24),))


def lambda_layer(torch: Any) -> Program:
    from lambda_networks import LambdaLayer

    model = LambdaLayer(dim=8, dim_out=8, n=4, dim_k=4, heads=2, dim_u=1)
    return Program(model, (normal(2, 8, 4, 4),))


def conformer(torch: Any) -> Program:
    from conformer import Conformer

    model = Conformer(dim=16, depth=1, dim_head=8, heads=2, conv_kernel_size=5)
    return Program(model, (normal(2, 10, 16),))


def temporal_convolutions(torch: Any) -> Program:
    from pytorch_tcn import TCN

    model = TCN(num_inputs=4, num_channels=[6, 6], kernel_size=3, dropout=0.0)
    return Program(model, (normal(2, 4, 20),))


def efficient_net(torch: Any) -> Program:
    from efficientnet_pytorch import EfficientNet

    model = EfficientNet.from_name(
        "efficientnet-b0", width_coefficient=0.25, depth_coefficient=0.3, num_classes=5,
        drop_connect_rate=0.0, dropout_rate=0.0, image_size=64,
    )  # fmt: skip
    return Program(model, (normal(4, 3, 64, 64),))


def transformer_of_words(torch: Any) -> Program:
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(
        num_tokens=32, max_seq_len=16,
        attn_layers=Decoder(dim=16, depth=2, heads=2, attn_dim_head=8, rotary_pos_emb=True),
    )  # fmt: skip
    return Program(model, (words(2, 12),))


def structural_similarity(torch: Any) -> Program:
    from pytorch_msssim import ssim

    start, other = normal(2, 3, 24, 24), normal(3, 24, 24)[None]

    def call(model: Any, x: Any, y: Any) -> Any:
        return ssim(model.weight + x, y, data_range=4.0, size_average=False)

    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.zeros(2, 3, 24, 24))
    return Program(model, (start, np.broadcast_to(other, start.shape).copy()), call)


def sparse_maxima(torch: Any) -> Program:
    from entmax import entmax15, sparsemax

    model = torch.nn.Linear(6, 8)
    return Program(
        model, (normal(4, 6),), lambda m, x: (sparsemax(m(x), dim=-1), entmax15(m(x), dim=-1))
    )


def differential_equation(torch: Any) -> Program:
    from torchdiffeq import odeint

    model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    def call(model: Any, x: Any, times: Any) -> Any:
        return odeint(lambda t, y: model(y), x, times, method="rk4")

    return Program(model, (normal(3, 2), np.linspace(0, 1, 5).astype(np.float32)), call)


def _perceptron(torch: Any, optimizer: Callable[[Any], Any]) -> Program:
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.GELU(), torch.nn.Linear(12, 3))
    return Program(model, (normal(4, 6),), optimizer=optimizer)


def lion(torch: Any) -> Program:
    from lion_pytorch import Lion

    return _perceptron(torch, lambda parameters: Lion(parameters, lr=1e-3, weight_decay=1e-2))


def moving_average(torch: Any) -> Program:
    from torch_ema import ExponentialMovingAverage

    model = torch.nn.Linear(6, 3)

    def call(model: Any, x: Any) -> Any:
        average = ExponentialMovingAverage(model.parameters(), decay=0.5)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.5)
        average.update()
        with average.average_parameters():
            averaged = model(x).detach()
        return model(x), averaged

    return Program(model, (normal(4, 6),), call)


PROGRAMS: dict[str, Callable[[Any], Program]] = {
    "vit_pytorch.vit": vision_transformer,
    "vit_pytorch.simple_vit": simple_vision_transformer,
    "g_mlp_pytorch": gated_mlp,
    "mlp_mixer_pytorch": mixer,
    "perceiver_pytorch": perceiver,
    "nystrom_attention": nystromformer,
    "axial_attention": axial_attention,
    "linformer": linformer,
    "rotary_embedding_torch": rotary_embedding,
    "local_attention": local_transformer,
    "lambda_networks": lambda_layer,
    "conformer": conformer,
    "pytorch_tcn": temporal_convolutions,
    "efficientnet_pytorch": efficient_net,
    "x_transformers": transformer_of_words,
    "pytorch_msssim": structural_similarity,
    "entmax": sparse_maxima,
    "torchdiffeq": differential_equation,
    "lion_pytorch": lion,
    "torch_ema": moving_average,
    **{name: build for name, build in ECOSYSTEMS.items() if is_installed(name)},
}

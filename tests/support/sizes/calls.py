"""Calls of functions and layers that are tried over several sizes: each a line of Python.

A line is an expression over its operands, which are named as in `OPERANDS`, `L` (the library) and
`F` (its `nn.functional`). Layers are lines of `LAYERS` that make one, with the operands it is
called with. The first two sizes of operands are those of the batch and the sequence.
"""

from collections.abc import Callable

import numpy as np

SIZES = ((3, 8), (5, 11), (7, 9), (4, 13), (6, 10))
"""Batch and sequence of one call after the other."""


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _below(most: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, most, shape)


def _positive(*shape: int) -> np.ndarray:
    return np.abs(_floats(*shape)) + np.float32(0.1)


def _definite(*shape: int) -> np.ndarray:
    half = _floats(*shape)
    return half @ half.swapaxes(-1, -2) + np.eye(shape[-1], dtype=np.float32) * 4


OPERANDS: dict[str, Callable[[int, int], np.ndarray]] = {
    "x": lambda b, t: _floats(b, t),
    "y": lambda b, t: _floats(b, t)[::-1].copy(),
    "v": lambda b, t: _floats(t),
    "u": lambda b, t: _floats(b),
    "p": lambda b, t: _positive(b, t),
    "w": lambda b, t: _floats(b, t, 4),
    "w2": lambda b, t: _floats(b, t, 4)[::-1].copy(),
    "seq": lambda b, t: _floats(t, b, 4),
    "s": lambda b, t: _floats(t, t),
    "m": lambda b, t: _floats(b, t, t),
    "d": lambda b, t: _definite(b, t, t),
    "q": lambda b, t: _floats(b, 2, t, 4),
    "k": lambda b, t: _floats(b, 2, t + 1, 4),
    "line": lambda b, t: _floats(b, 4, t),
    "plane": lambda b, t: _floats(b, 4, t, t + 1),
    "space": lambda b, t: _floats(b, 4, t, 5, t - 1),
    "ids": lambda b, t: _below(4, b, t),
    "cls": lambda b, t: _below(8, b),
    "signs": lambda b, t: np.sign(_floats(b, t)),
    "sign": lambda b, t: np.sign(_floats(b)),
    "mask": lambda b, t: _floats(b, t) > 0,
    "attend": lambda b, t: np.tril(np.ones((t, t), bool)),
    "perm": lambda b, t: np.random.default_rng(t).permutation(t),
    "c": lambda b, t: (_floats(b, t) + 1j * _floats(b, t)).astype(np.complex64),
    "grid": lambda b, t: np.tanh(_floats(b, t, t + 2, 2)),
    "theta": lambda b, t: _floats(b, 2, 3),
    "patches": lambda b, t: _floats(b, 12, (t - 1) * (t + 1)),
    "p3": lambda b, t: _positive(b, 4, t),
    "p4": lambda b, t: _positive(b, 4, t, t + 1),
    "w0": lambda b, t: _floats(b, 4),
    "x8": lambda b, t: _floats(b, 8),
    "share": lambda b, t: np.random.default_rng(b).random((b, t), np.float32),
}

CREATION = """
L.linspace(0, 1, x.shape[0])
L.linspace(0, x.shape[1], x.shape[1])
L.linspace(0.0, 1.0, len(x) + 1, dtype=L.float64)
L.logspace(0, 1, x.shape[1])
L.arange(x.shape[0])
L.arange(x.shape[0], dtype=L.float32)
L.arange(1, x.shape[1])
L.arange(0, x.shape[1], 2)
L.arange(x.shape[1], 0, -1)
L.arange(0.0, x.shape[1])
L.range(0, x.shape[1])
L.eye(x.shape[0])
L.eye(x.shape[0], x.shape[1])
L.zeros(x.shape[0], 3)
L.ones(x.shape)
L.full((x.shape[1],), 3.0)
L.full((x.shape[1], 2), x.shape[0])
L.empty(x.shape[1], x.shape[0]).fill_(2)
L.zeros_like(x)
x.new_zeros(x.shape[1])
x.new_full((x.shape[0], 2), 1.5)
L.tril_indices(x.shape[0], x.shape[1])
L.triu_indices(x.shape[1], x.shape[1], 1)
L.triu_indices(x.shape[0], x.shape[1], -1)
L.tril(L.ones(x.shape[1], x.shape[1]))
L.triu(L.full((x.shape[1], x.shape[1]), float("-inf")), diagonal=1)
L.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
L.meshgrid(v, u, indexing="ij")
L.meshgrid(v, u, indexing="xy")
L.meshgrid(L.arange(x.shape[0]), L.arange(x.shape[1]), indexing="ij")
L.cartesian_prod(v, u)
L.combinations(v)
L.combinations(u, with_replacement=True)
L.combinations(u, 3)
L.vander(v)
L.vander(u, 4)
L.block_diag(x, y)
L.hann_window(x.shape[1])
L.hamming_window(x.shape[1], periodic=False)
L.blackman_window(x.shape[1])
L.bartlett_window(x.shape[1])
L.kaiser_window(x.shape[1])
L.complex(x, y)
L.polar(p, x)
L.tensor([x.shape[0], x.shape[1]])
L.tensor(x.shape)
L.tensor(x.shape[0] / x.shape[1])
F.one_hot(ids, 5)
F.one_hot(cls, x.shape[1])
F.one_hot(L.arange(x.shape[0]), x.shape[1])
L.bucketize(x, v.sort()[0])
L.searchsorted(v.sort()[0], x)
L.randn(x.shape)
L.rand(x.shape[1], 2)
L.randint(0, x.shape[1], (x.shape[0],))
L.randperm(x.shape[1])
L.rand_like(x)
L.bernoulli(L.sigmoid(x))
L.normal(x, 1.0)
L.multinomial(p, 2)
L.multinomial(p, x.shape[1], replacement=True)
F.dropout(x, 0.5)
F.alpha_dropout(x, 0.5, True)
F.dropout1d(line, 0.5)
F.dropout2d(plane, 0.5)
F.gumbel_softmax(x)
"""

MOVEMENT = """
L.diag(v)
L.diag(v, 1)
L.diag(v, -2)
L.diag(x)
L.diag(x, 1)
L.diag(s)
L.diagonal(x)
L.diagonal(x, 1)
L.diagonal(x, -1)
L.diagonal(m, 0, 1, 2)
L.diagonal(plane, 0, 2, 3)
L.diag_embed(x)
L.diag_embed(x, 1)
L.diagflat(x)
L.diagonal_scatter(s, v)
L.trace(x)
L.chunk(x, 2)
L.chunk(x, 3, 1)
L.chunk(w, 2, -1)
x.chunk(2, dim=1)[0]
L.split(x, [2, x.shape[1] - 2], 1)
L.split(x, [1, 2, x.shape[1] - 3], -1)
x.split(x.shape[0])
x.split(100)
w.split(2, -1)
L.tensor_split(x, 2)
L.tensor_split(x, 3, 1)
L.tensor_split(x, (1, 3), 1)
L.tensor_split(x, [x.shape[1] // 2], 1)
L.hsplit(x, [2, 5])
L.vsplit(x, [1])
L.dsplit(w, 2)
L.unbind(w, -1)
L.narrow(x, 1, 2, 3)
x.narrow(1, 0, x.shape[1] - 2)
x.narrow(0, x.shape[0] - 2, 2)
L.select(x, 1, -1)
x[:, -1]
x[:, 1:]
x[:, :-1]
x[::2]
x[:, ::3]
x[1:, : x.shape[1] // 2]
x[x.shape[0] // 2]
x[..., None]
x[:, None] * x[None]
x[:, perm]
x[ids[:, 0] % 3]
x[L.arange(x.shape[0]), ids[:, 0]]
L.flip(x, (0, 1))
L.fliplr(x)
L.flipud(x)
L.roll(x, 1)
L.roll(x, 1, 1)
L.roll(x, (1, -2), (0, 1))
L.roll(x, x.shape[1] // 2, 1)
L.rot90(x)
L.rot90(x, 2)
L.tile(x, (2, 3))
L.tile(x, (x.shape[0], 1))
x.repeat(2, 1, 3)
x.repeat(x.shape[0], 1)
x.repeat_interleave(2)
x.repeat_interleave(2, 1)
x.repeat_interleave(x.shape[0], 0)
L.repeat_interleave(x, ids[:, 0] * 0 + 2, 0, output_size=2 * x.shape[0])
x.expand(2, -1, -1)
x.unsqueeze(1).expand(-1, x.shape[1], -1)
v.expand(x.shape[0], -1)
v.expand_as(x)
L.broadcast_to(v, x.shape)
L.broadcast_tensors(v, x)
x.view(-1)
x.view(x.shape[0], 1, -1)
x.reshape(x.shape[1], x.shape[0])
w.reshape(w.shape[0], -1)
w.view(w.shape[0], w.shape[1], 2, 2)
w.view(w.shape[0], -1, 2, 2).transpose(1, 2)
w.flatten(1)
w.flatten(0, 1)
w.unflatten(-1, (2, 2))
q.transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)
q.permute(0, 2, 1, 3).contiguous().view(q.shape[0], -1, 8)
x.t()
w.permute(2, 0, 1)
w.movedim(-1, 0)
w.swapaxes(0, 1)
w.mT
x.squeeze()
x.unfold(1, 3, 1)
x.unfold(1, 3, 2)
x.unfold(0, 2, 1)
v.unfold(0, 4, 2)
L.cat([x, y])
L.cat([x, y], 1)
L.cat([x, x[:, :3]], 1)
L.stack([x, y], 1)
L.hstack([x, y])
L.vstack([x, y])
L.dstack([x, y])
L.column_stack([x, y])
F.pad(x, (1, 2))
F.pad(x, (1, 2, 0, 3), value=2.0)
F.pad(x, (-1, -2))
F.pad(line, (1, 2), mode="reflect")
F.pad(line, (1, 2), mode="replicate")
F.pad(line, (1, 2), mode="circular")
F.pad(plane, (1, 2, 3, 1), mode="reflect")
F.pad(plane, (1, 2, 3, 1), mode="replicate")
F.pad(plane, (1, 2, 3, 1), mode="circular")
F.pad(space, (1, 2, 3, 1, 1, 1), mode="replicate")
F.pad(x, (0, 16 - x.shape[1]))
F.pad(x, (0, -x.shape[1] % 4))
L.gather(x, 1, ids)
L.scatter(x, 1, ids, 2.0)
L.scatter_add(x, 1, ids, y)
x.scatter_reduce(1, ids, y, "amax")
x.index_select(1, perm)
x.index_add(0, cls * 0, y)
x.index_fill(1, perm[:2], 1.0)
x.index_copy(1, perm, y)
L.take(x, perm)
L.take_along_dim(x, ids, 1)
x.masked_fill(mask, 0.0)
x.masked_scatter(mask, y)
L.where(mask, x, y)
L.select_scatter(x, v, 0, 1)
L.slice_scatter(x, y[:, 1:4], 1, 0, 3)
L.tril(x)
L.triu(x, 1)
L.tril(m, -1)
F.pixel_shuffle(plane, 2)
F.pixel_unshuffle(F.interpolate(plane, size=(8, 8)), 2)
F.channel_shuffle(plane, 2)
F.unfold(plane, 3)
F.unfold(plane, (2, 3), padding=1, stride=2)
F.unfold(plane, 3, dilation=2)
F.fold(patches, (x.shape[1], x.shape[1] + 2), (2, 2))
F.glu(w)
L.atleast_2d(v)
L.atleast_3d(x)
x.new_tensor([1.0, 2.0]).expand(x.shape[0], 2)
"""

REDUCTIONS = """
L.median(v)
L.median(x)
L.median(x, 1)
L.nanmedian(x, 1)
L.quantile(x, 0.3)
L.quantile(x, 0.3, dim=1)
L.nanquantile(x, L.tensor([0.1, 0.7]), dim=1)
L.kthvalue(x, 2, 1)
L.kthvalue(x, x.shape[1] // 2, 1)
L.mode(ids, 1)
L.topk(x, 3)
L.topk(x, 2, 0)
L.topk(x, x.shape[1] // 2)
L.topk(x, min(5, x.shape[1]))
L.sort(x, 1)
L.sort(x, 0, descending=True)
L.argsort(x)
L.msort(x)
L.max(x)
L.max(x, 1)
L.min(x, 0)
L.amax(x, (0, 1))
L.aminmax(x, dim=1)
L.argmax(x)
L.argmax(x, 1)
L.argmin(x, 0)
x.mean()
x.mean(1)
x.sum() / x.shape[0]
x.sum(0) / x.shape[0]
x.std()
x.std(1)
x.var(0, unbiased=False)
L.var_mean(x, 1)
L.std_mean(x, 1)
x.prod(1)
L.logsumexp(x, 1)
L.nansum(x, 1)
L.nanmean(x, 1)
L.norm(x)
L.norm(x, dim=1)
L.linalg.vector_norm(x, 3, 1)
L.linalg.matrix_norm(m)
L.linalg.norm(x)
L.any(mask, 1)
L.all(mask)
L.count_nonzero(mask, 1)
L.cumsum(x, 1)
L.cumsum(x, 0)
L.cumprod(x, 1)
L.cummax(x, 1)
L.cummin(x, 0)
L.logcumsumexp(x, 1)
L.diff(x)
L.diff(x, 2, 1)
L.gradient(x, dim=1)
L.trapezoid(x)
L.cumulative_trapezoid(x)
L.cov(x)
L.corrcoef(x)
L.softmax(x, 1)
L.log_softmax(x, 0)
F.softmin(x, 1)
F.normalize(x, dim=1)
L.renorm(x, 2, 0, 1.0)
x / x.shape[1] ** 0.5
x * x.shape[0]
x * (x.shape[0] / x.shape[1])
x.numel() + x
x.sum() / x.numel()
"""

ALGEBRA = """
x @ v
v @ v
v @ x.t()
L.mm(x, y.t())
L.matmul(w, w.mT)
L.matmul(v, w)
L.matmul(w, L.ones(4, device=w.device))
L.matmul(x, w)
L.matmul(q, q.mT)
L.bmm(w, w2.mT)
L.baddbmm(m, w, w2.mT)
L.addmm(s, x.t(), y)
L.addmv(u, x, v)
L.addr(x, u, v)
L.addbmm(s, w, w2.mT)
L.dot(v, v)
L.inner(x, y)
L.outer(u, v)
L.ger(u, v)
L.mv(x, v)
L.kron(x, s[:2, :2])
L.cross(w[..., :3], w2[..., :3], dim=-1)
L.linalg.cross(w[..., :3], w2[..., :3])
L.tensordot(x, y, 2)
L.tensordot(x, y, ([1], [1]))
L.einsum("bt,bt->b", x, y)
L.einsum("bi,bj->ij", x, y)
L.einsum("bqd,bkd->bqk", w, w2)
L.einsum("bhqd,bhkd->bhqk", q, k)
L.einsum("bt,t->b", x, v)
L.einsum("ii->i", s)
L.einsum("bii->b", m)
L.einsum("...d,...d->...", w, w2)
L.chain_matmul(x, s, x.t())
L.linalg.multi_dot([x, s, y.t()])
L.matrix_power(s, 2)
L.linalg.matrix_power(m, 3)
L.matrix_exp(s * 0.1)
L.cdist(w, w2)
L.cdist(w, w2, p=1.0)
L.cdist(x, y)
L.pdist(x)
F.pdist(x, 1.0)
F.pairwise_distance(x, y)
F.cosine_similarity(x, y)
F.cosine_similarity(w, w2, dim=-1)
L.linalg.inv(d)
L.linalg.det(d)
L.linalg.slogdet(d)
L.logdet(d)
L.linalg.cholesky(d)
L.cholesky_inverse(L.linalg.cholesky(d))
L.linalg.solve(d, m)
L.linalg.solve_triangular(d, m, upper=False)
L.linalg.qr(m)
L.linalg.qr(w)
L.linalg.svdvals(m)
L.linalg.svd(x, full_matrices=False)[1]
L.linalg.eigvalsh(d)
L.linalg.eigh(d)[0]
L.linalg.pinv(x)
L.linalg.matrix_rank(d)
L.linalg.lstsq(d, m)[0]
L.linalg.lu_factor(d)[0]
L.linalg.lu(d)
L.linalg.cond(d)
L.linalg.householder_product(w, w[:, 0])
L.linalg.vander(u)
L.lu_solve(m, *L.linalg.lu_factor(d))
L.trapz(x)
F.linear(x, s)
F.linear(x, s, v)
F.bilinear(x, y, L.ones(2, x.shape[1], y.shape[1]))
F.embedding(ids, L.ones(8, 4).cumsum(0))
F.embedding(ids, s)
F.embedding_bag(ids, L.ones(8, 4).cumsum(0))
F.embedding_bag(ids.flatten(), s, L.arange(ids.shape[0]))
L.fft.fft(x)
L.fft.ifft(x)
L.fft.rfft(x)
L.fft.irfft(L.fft.rfft(x))
L.fft.irfft(L.fft.rfft(x), n=x.shape[1])
L.fft.fft2(m)
L.fft.rfft2(m)
L.fft.irfft2(L.fft.rfft2(m), s=m.shape[-2:])
L.fft.fftn(w)
L.fft.hfft(x)
L.fft.fftfreq(x.shape[1])
L.fft.rfftfreq(x.shape[1])
L.fft.fftshift(x)
L.fft.ifftshift(x, 1)
L.fft.fft(x, n=16)
L.stft(x, 4, 2, window=L.ones(4), return_complex=True)
L.stft(x, 4, window=L.hann_window(4), return_complex=True, center=False)
L.istft(L.stft(x, 4, 2, window=L.ones(4), return_complex=True), 4, 2, window=L.ones(4))
L.istft(L.stft(x, 4, 2, window=L.ones(4), return_complex=True), 4, 2, length=x.shape[1])
L.real(c)
L.view_as_real(c)
L.abs(c)
L.angle(c)
c @ c.mH
L.unravel_index(cls, x.shape)
L.isin(ids, cls)
"""

NETWORKS = """
F.scaled_dot_product_attention(q, q, q)
F.scaled_dot_product_attention(q, k, k)
F.scaled_dot_product_attention(q, q, q, is_causal=True)
F.scaled_dot_product_attention(q, q, q, attn_mask=attend)
F.scaled_dot_product_attention(q, q, q, attn_mask=s)
F.scaled_dot_product_attention(q, q, q, scale=0.5)
F.layer_norm(x, x.shape[1:])
F.layer_norm(w, (4,))
F.layer_norm(w, w.shape[1:])
F.rms_norm(x, x.shape[1:])
F.group_norm(plane, 2)
F.batch_norm(x, None, None, training=True)
F.batch_norm(line, None, None, training=True)
F.instance_norm(plane)
F.local_response_norm(plane, 2)
F.interpolate(line, scale_factor=2)
F.interpolate(line, scale_factor=2, mode="linear")
F.interpolate(line, size=7, mode="linear", align_corners=True)
F.interpolate(line, size=line.shape[2] * 2)
F.interpolate(line, scale_factor=1.5)
F.interpolate(line, scale_factor=0.5, mode="area")
F.interpolate(plane, scale_factor=2)
F.interpolate(plane, scale_factor=0.5)
F.interpolate(plane, scale_factor=2, mode="bilinear")
F.interpolate(plane, scale_factor=1.7, mode="bilinear")
F.interpolate(plane, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True)
F.interpolate(plane, scale_factor=2, mode="bilinear", align_corners=True)
F.interpolate(plane, scale_factor=2, mode="bicubic")
F.interpolate(plane, scale_factor=2, mode="nearest-exact")
F.interpolate(plane, scale_factor=0.5, mode="bilinear", antialias=True)
F.interpolate(plane, size=(5, 6))
F.interpolate(plane, size=(5, 6), mode="bilinear")
F.interpolate(plane, size=(5, 6), mode="bicubic")
F.interpolate(plane, size=(5, 6), mode="area")
F.interpolate(plane, size=(5, 6), mode="bilinear", antialias=True)
F.interpolate(plane, size=(5, 6), mode="bicubic", antialias=True)
F.interpolate(plane, size=plane.shape[2:], mode="bilinear")
F.interpolate(plane, size=(plane.shape[2] * 2, plane.shape[3] * 2), mode="nearest")
F.interpolate(space, scale_factor=2, mode="trilinear")
F.interpolate(space, size=(4, 4, 4))
F.interpolate(space, size=(4, 4, 4), mode="trilinear", align_corners=True)
F.upsample(plane, scale_factor=2)
F.adaptive_avg_pool1d(line, 3)
F.adaptive_avg_pool1d(line, 1)
F.adaptive_avg_pool2d(plane, 1)
F.adaptive_avg_pool2d(plane, (3, 2))
F.adaptive_avg_pool2d(plane, (None, 2))
F.adaptive_avg_pool3d(space, 2)
F.adaptive_avg_pool3d(space, 1)
F.adaptive_max_pool1d(line, 3)
F.adaptive_max_pool1d(line, 1)
F.adaptive_max_pool2d(plane, 1)
F.adaptive_max_pool2d(plane, (3, 2))
F.adaptive_max_pool2d(plane, (3, 2), return_indices=True)
F.adaptive_max_pool3d(space, 2)
F.avg_pool1d(line, 2)
F.avg_pool1d(line, 3, 1, 1)
F.avg_pool2d(plane, 2)
F.avg_pool2d(plane, 3, 2, 1, ceil_mode=True)
F.avg_pool2d(plane, 3, 2, 1, count_include_pad=False)
F.avg_pool2d(plane, plane.shape[2:])
F.avg_pool3d(space, 2)
F.max_pool1d(line, 2)
F.max_pool2d(plane, 2)
F.max_pool2d(plane, 3, 2, 1)
F.max_pool2d(plane, 3, 2, 1, ceil_mode=True)
F.max_pool2d(plane, 2, return_indices=True)
F.max_pool2d(plane, plane.shape[2:])
F.max_pool3d(space, 2)
F.lp_pool1d(line.abs(), 2, 2)
F.lp_pool2d(plane.abs(), 2, 2)
F.max_unpool1d(*F.max_pool1d(line, 2, return_indices=True), 2)
F.max_unpool2d(*F.max_pool2d(plane, 2, return_indices=True), 2, output_size=plane.shape)
F.conv1d(line, L.ones(3, 4, 3))
F.conv1d(line, L.ones(3, 4, 3), padding="same")
F.conv1d(line, L.ones(4, 1, 3), groups=4, padding=1)
F.conv2d(plane, L.ones(3, 4, 3, 2), L.ones(3), stride=2, padding=1)
F.conv2d(plane, L.ones(3, 4, 3, 3), padding="same", dilation=2)
F.conv3d(space, L.ones(3, 4, 2, 2, 2))
F.conv_transpose1d(line, L.ones(4, 3, 3), stride=2)
F.conv_transpose2d(plane, L.ones(4, 3, 3, 2), stride=2, padding=1, output_padding=1)
F.conv_transpose3d(space, L.ones(4, 3, 2, 2, 2))
F.grid_sample(plane, grid, align_corners=False)
F.grid_sample(plane, grid, mode="nearest", padding_mode="border", align_corners=True)
F.grid_sample(plane, grid, mode="bicubic", padding_mode="reflection", align_corners=False)
F.grid_sample(plane, F.affine_grid(theta, plane.shape, align_corners=False), align_corners=False)
F.affine_grid(theta, plane.shape, align_corners=False)
F.affine_grid(theta, list(plane.shape), align_corners=True)
F.cross_entropy(x, cls)
F.cross_entropy(x, cls, label_smoothing=0.1)
F.cross_entropy(x, L.softmax(y, 1))
F.cross_entropy(w.transpose(1, 2), ids)
F.cross_entropy(w.reshape(-1, 4), ids.reshape(-1), ignore_index=0)
F.nll_loss(F.log_softmax(x, 1), cls, reduction="none")
F.binary_cross_entropy(L.sigmoid(x), mask.float())
F.binary_cross_entropy_with_logits(x, mask.float())
F.mse_loss(x, y)
F.l1_loss(x, y)
F.smooth_l1_loss(x, y)
F.huber_loss(x, y)
F.kl_div(F.log_softmax(x, 1), L.softmax(y, 1), reduction="batchmean")
F.poisson_nll_loss(x, p)
F.gaussian_nll_loss(x, y, p)
F.margin_ranking_loss(x, y, signs)
F.hinge_embedding_loss(x, signs)
F.soft_margin_loss(x, signs)
F.cosine_embedding_loss(x, y, sign)
F.multi_margin_loss(x, cls)
F.multilabel_margin_loss(w[:, 0], ids[:, :4])
F.multilabel_soft_margin_loss(x, mask.float())
F.triplet_margin_loss(x, y, x * 2)
F.triplet_margin_with_distance_loss(x, y, x * 2)
F.glu(w, -1)
F.prelu(line, L.ones(4))
F.rrelu(x)
F.gelu(x)
F.threshold(x, 0.1, 2.0)
"""

LAYERS = """
L.nn.Linear(4, 3) | w
L.nn.Bilinear(4, 4, 3) | w w2
L.nn.Embedding(4, 3) | ids
L.nn.Embedding(4, 3, padding_idx=1) | ids
L.nn.EmbeddingBag(4, 3) | ids
L.nn.LayerNorm(4) | w
L.nn.RMSNorm(4) | w
L.nn.GroupNorm(2, 4) | plane
L.nn.BatchNorm1d(4) | line
L.nn.BatchNorm2d(4) | plane
L.nn.BatchNorm3d(4) | space
L.nn.BatchNorm2d(4).eval() | plane
L.nn.InstanceNorm1d(4, affine=True) | line
L.nn.InstanceNorm2d(4, track_running_stats=True) | plane
L.nn.InstanceNorm3d(4) | space
L.nn.LocalResponseNorm(2) | plane
L.nn.Conv1d(4, 6, 3, padding=1) | line
L.nn.Conv2d(4, 6, 3, stride=2) | plane
L.nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect") | plane
L.nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular") | plane
L.nn.Conv2d(4, 8, 3, groups=4, dilation=2) | plane
L.nn.Conv3d(4, 6, 2) | space
L.nn.ConvTranspose1d(4, 6, 3, stride=2) | line
L.nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1) | plane
L.nn.ConvTranspose3d(4, 6, 2) | space
L.nn.MaxPool1d(2) | line
L.nn.MaxPool2d(2) | plane
L.nn.MaxPool3d(2) | space
L.nn.AvgPool1d(2) | line
L.nn.AvgPool2d(2) | plane
L.nn.AvgPool3d(2) | space
L.nn.LPPool1d(2, 2) | p3
L.nn.LPPool2d(2, 2) | p4
L.nn.FractionalMaxPool2d(2, output_size=3) | plane
L.nn.FractionalMaxPool2d(2, output_ratio=0.5) | plane
L.nn.AdaptiveAvgPool1d(3) | line
L.nn.AdaptiveAvgPool2d((3, 2)) | plane
L.nn.AdaptiveAvgPool3d(2) | space
L.nn.AdaptiveMaxPool1d(3) | line
L.nn.AdaptiveMaxPool2d((3, 2)) | plane
L.nn.AdaptiveMaxPool3d(2) | space
L.nn.ConstantPad1d(1, 2.0) | line
L.nn.ZeroPad2d(1) | plane
L.nn.ReflectionPad1d(2) | line
L.nn.ReflectionPad2d(2) | plane
L.nn.ReflectionPad3d(1) | space
L.nn.ReplicationPad2d(1) | plane
L.nn.ReplicationPad3d(1) | space
L.nn.CircularPad1d(2) | line
L.nn.CircularPad2d(1) | plane
L.nn.Unfold(2) | plane
L.nn.PixelShuffle(2) | plane
L.nn.ChannelShuffle(2) | plane
L.nn.Upsample(scale_factor=2) | plane
L.nn.Upsample(scale_factor=2, mode="bicubic") | plane
L.nn.Upsample(size=(7, 7), mode="bilinear") | plane
L.nn.UpsamplingBilinear2d(scale_factor=2) | plane
L.nn.UpsamplingNearest2d(scale_factor=2) | plane
L.nn.Flatten() | w
L.nn.Unflatten(2, (2, 2)) | w
L.nn.GLU() | w
L.nn.Softmax2d() | plane
L.nn.PReLU(4) | line
L.nn.RReLU() | x
L.nn.Dropout(0.5) | x
L.nn.Dropout2d(0.5) | plane
L.nn.FeatureAlphaDropout(0.5) | plane
L.nn.RNNCell(4, 3) | w0
L.nn.GRUCell(4, 3) | w0
L.nn.LSTMCell(4, 3) | w0
L.nn.RNN(4, 3) | seq
L.nn.RNN(4, 3, 2, nonlinearity="relu", bidirectional=True) | seq
L.nn.RNN(4, 3, batch_first=True) | w
L.nn.GRU(4, 3) | seq
L.nn.GRU(4, 3, 2, batch_first=True) | w
L.nn.GRU(4, 3, bidirectional=True) | seq
L.nn.LSTM(4, 3) | seq
L.nn.LSTM(4, 3, 2, batch_first=True) | w
L.nn.LSTM(4, 3, bidirectional=True, bias=False) | seq
L.nn.LSTM(4, 3, proj_size=2) | seq
L.nn.LSTM(4, 3, 2, dropout=0.5) | seq
L.nn.MultiheadAttention(4, 2) | seq seq seq
L.nn.MultiheadAttention(4, 2, batch_first=True) | w w w
L.nn.MultiheadAttention(4, 2, bias=False, add_zero_attn=True) | seq seq seq
L.nn.MultiheadAttention(4, 2, add_bias_kv=True) | seq seq seq
L.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0) | seq
L.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True, norm_first=True) | w
L.nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0) | seq seq
L.nn.TransformerEncoder(L.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), 2) | seq
L.nn.TransformerDecoder(L.nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0), 2) | seq seq
L.nn.Transformer(4, 2, 1, 1, 8, dropout=0.0) | seq seq
L.nn.CosineSimilarity() | x y
L.nn.PairwiseDistance() | x y
L.nn.CrossEntropyLoss() | x cls
L.nn.CrossEntropyLoss(weight=L.ones(8), reduction="none") | x8 cls
L.nn.NLLLoss() | x cls
L.nn.MSELoss() | x y
L.nn.L1Loss() | x y
L.nn.SmoothL1Loss() | x y
L.nn.HuberLoss() | x y
L.nn.BCEWithLogitsLoss() | x share
L.nn.BCELoss() | share share
L.nn.KLDivLoss(reduction="batchmean") | x share
L.nn.PoissonNLLLoss() | x p
L.nn.GaussianNLLLoss() | x y p
L.nn.SoftMarginLoss() | x signs
L.nn.HingeEmbeddingLoss() | x signs
L.nn.MarginRankingLoss() | x y signs
L.nn.TripletMarginLoss() | x y p
L.nn.TripletMarginWithDistanceLoss() | x y p
L.nn.CosineEmbeddingLoss() | x y sign
L.nn.MultiLabelSoftMarginLoss() | x share
L.nn.MultiMarginLoss() | x cls
"""

BY_CONTENTS = """
F.one_hot(ids)
L.bincount(ids.flatten(), minlength=9)
L.histc(x, 4)
L.histogram(x, 4)
x[mask]
L.masked_select(x, mask)
L.nonzero(mask)
L.argwhere(mask)
L.unique(ids)
L.unique_consecutive(ids)
"""
"""The elements say how many results there are, or are asked for: a graph ends there."""

BY_COUNT = """
L.split(x, 2)
L.split(x, 4, 1)
L.split(x, 3, 1)
L.split(x, x.shape[1] // 2, 1)
"""
"""The size says how many results there are: a version for each number of them."""

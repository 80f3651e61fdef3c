"""Calls with arguments that are integers, one a line, for `test_integer_arguments.py`.

`L` is the library, `F` and `nn` are its modules, x is float32 of shape (6, 6), n is 3 and m is 1 in
the form that is asked for. What depends on random numbers gives its shape only.
"""

PROGRAMS = """\
L.arange(n)
L.arange(1, n)
L.arange(0, 9, n)
L.arange(end=n)
L.arange(start=n, end=7)
L.linspace(0, 1, n)
L.linspace(0, n, 4)
L.logspace(0, 1, n)
L.eye(n)
L.eye(2, n)
L.zeros(n)
L.zeros((n, 2))
L.zeros(size=(n, 2))
L.ones(2, n)
L.empty(n).shape
L.full((n,), 1.5)
L.rand(n).shape
L.randn(n, 2).shape
L.randint(n, (2,)).shape
L.randint(0, n, (n,)).shape
L.randperm(n).shape
L.tril_indices(n, n)
L.triu_indices(3, n, n)
L.range(0, n)
L.normal(0.0, 1.0, (n,)).shape
x.new_zeros(n)
x.new_ones((n, 2))
x.new_full((n,), 2.0)
x.new_empty(n).shape
L.hann_window(n)
L.hamming_window(n)
L.blackman_window(n)
L.bartlett_window(n)
L.kaiser_window(n)
L.signal.windows.hann(n)
L.signal.windows.kaiser(n)
L.signal.windows.exponential(n)
L.signal.windows.general_cosine(n, a=[0.5, 0.5])
x.topk(n)
x.kthvalue(n)
L.multinomial(x.abs() + 0.1, n).shape
F.one_hot(L.tensor([0, 1]), n)
x.view(n, -1)
x.reshape(n, 3, -1)
x.reshape((n, -1))
x.unflatten(1, (n, -1))
x.flatten(0, m)
x.expand(n, 6, 6)
x.repeat(n, 1)
x.repeat((n, 1))
x.tile(n)
x.tile((n, 1))
L.tile(x, (n,))
x.split(n)
x.split([n, 6 - int(n)])
x.chunk(n)
x.tensor_split(n)
x.tensor_split((n,))
x.tensor_split((1, n))
x.hsplit(n)
x.vsplit(n)
x.narrow(0, n, 1)
x.narrow(1, 0, n)
x.narrow_copy(0, n, 1)
x.select(0, n)
x.select(m, 2)
x.roll(n)
x.roll(n, 0)
x.roll((n, n), (0, 1))
x.roll(1, m)
x.permute(m, 0)
x.transpose(0, m)
x.movedim(0, m)
x.unsqueeze(m)
x.flip(m)
x.flip((0, m))
x.rot90(n)
x.rot90(1, (m, 0))
x.sum(m)
x.sum((m,))
x.mean(m)
x.max(m)
x.argmax(m)
x.cumsum(m)
x.sort(m)
x.softmax(m)
x.unbind(m)
x.std(m)
x.var(correction=n)
x.norm(2, m)
x.logsumexp(m)
x.any(m)
x.amax((m,))
x.prod(m)
x.diff(n)
x.tril(n)
x.triu(n)
x.diagonal(n)
x.diag(n)
L.diag_embed(x, n)
L.diagflat(x, n)
x.unfold(0, n, 1)
x.unfold(1, 2, n)
x.unfold(m, 2, 2)
x.repeat_interleave(n)
x.repeat_interleave(n, m)
x.index_select(m, L.tensor([0]))
x.gather(m, L.zeros(6, 6, dtype=L.int64))
x.size(m)
x.stride(m)
x.round(decimals=n)
L.stack([x, x], m)
L.cat([x, x], m)
L.linalg.matrix_power(x, n)
x.matrix_power(n)
L.cdist(x, x, p=n)
L.tensordot(x, x, m)
L.tensordot(x, x, ([m], [m]))
L.histc(x, n)
L.histogram(x, int(n))
x.long().abs().flatten().bincount(minlength=n)
L.unravel_index(L.tensor(3), (3, 3))
L.as_strided(x, (n, 2), (1, 2))
x.as_strided((n, n), (n, 1), n)
L.fft.fft(x, n)
L.fft.fft(x, None, m)
L.fft.rfft(x, n)
L.fft.irfft(x, n)
L.fft.fftn(x, (n, n))
L.fft.fftfreq(n)
L.fft.rfftfreq(n)
L.fft.fftshift(x, m)
L.stft(x.flatten(), 8, n, return_complex=True)
L.stft(x.flatten(), n + n + n, return_complex=True)
F.avg_pool3d(x.view(1, 1, 6, 3, 2), m)
F.pad(x, (n, m))
F.pixel_shuffle(x.view(9, 2, 2), n)
F.group_norm(x, n)
F.layer_norm(x, (6,))
F.layer_norm(x.view(12, 3), (n,))
F.rms_norm(x.view(12, 3), (n,))
F.softmax(x, m)
F.log_softmax(x, m)
F.glu(x, m)
F.normalize(x, dim=m)
F.cosine_similarity(x, x, m)
F.nll_loss(x, L.tensor([0, 1, 2, 3, 4, 5]), ignore_index=n)
F.cross_entropy(x, L.tensor([0, 1, 2, 3, 4, 5]), ignore_index=n)
F.embedding(L.tensor([0, 1]), x, padding_idx=n)
F.embedding_bag(L.tensor([[0, 1]]), x, padding_idx=n)
F.multi_margin_loss(x, L.tensor([0, 1, 2, 3, 4, 5]), p=m)
F.affine_grid(L.ones(1, 2, 3), (1, 1, n, n), align_corners=False)
F.gumbel_softmax(x, dim=m).shape
F.threshold(x, n, n)
F.hardtanh(x, -n + 0, n)
F.elu(x, n)
F.leaky_relu(x, n)
nn.Linear(n, n).weight.shape
nn.Linear(6, n)(x).shape
nn.Bilinear(n, 2, n).weight.shape
nn.Conv2d(n, n, 1, groups=n).weight.shape
nn.BatchNorm1d(n)(L.ones(2, 3)).shape
nn.BatchNorm2d(n).weight.shape
nn.InstanceNorm1d(n).num_features
nn.GroupNorm(n, 6)(x).shape
nn.LayerNorm(n)(L.ones(2, 3))
nn.LayerNorm((n, n)).weight.shape
nn.RMSNorm(n)(L.ones(2, 3))
nn.Embedding(n, n)(L.tensor([0])).shape
nn.Embedding(5, n, padding_idx=n).weight.shape
nn.EmbeddingBag(n, n)(L.tensor([[0]])).shape
nn.LSTM(6, n)(x)[0].shape
nn.LSTM(n, 2, num_layers=n).all_weights[0][0].shape
nn.GRU(6, n, n)(x)[0].shape
nn.RNN(6, n)(x)[0].shape
nn.LSTMCell(6, n)(x)[0].shape
nn.GRUCell(n, n).weight_ih.shape
nn.MultiheadAttention(6, n)(x, x, x)[0].shape
nn.MultiheadAttention(n + n, n)(x, x, x)[0].shape
nn.TransformerEncoderLayer(6, n, n)(x).shape
nn.TransformerEncoder(nn.TransformerEncoderLayer(6, n, n, dropout=0.0), n)(x).shape
nn.Transformer(6, n, n, n, n)(x, x).shape
nn.PixelShuffle(n)(x.view(9, 2, 2))
nn.ReflectionPad1d(n)(x)
nn.ConstantPad1d(n, 1.0)(x)
nn.CircularPad1d(n)(x)
nn.Fold(n + 3, n)(L.ones(1, 9, 16))
nn.Flatten(0, m)(x)
nn.Unflatten(1, (n, 2))(x)
nn.Softmax(m)(x)
nn.LogSoftmax(m)(x)
nn.GLU(m)(x)
nn.CosineSimilarity(m)(x, x)
nn.CrossEntropyLoss(ignore_index=n)(x, L.tensor([0, 1, 2, 3, 4, 5]))
nn.AdaptiveLogSoftmaxWithLoss(6, 8, [n]).head.weight.shape
nn.PReLU(n).weight.shape
x.swapaxes(0, m)
x.logcumsumexp(m)
x.cummax(m)
x.nansum(m)
x.quantile(0.5, m)
x.median(m)
x.mode(m)
x.renorm(2, m, 1.0)
x.count_nonzero(m)
x.unique(dim=m)
x.take_along_dim(L.zeros(6, 6, dtype=L.int64), m)
x.scatter(m, L.zeros(6, 6, dtype=L.int64), 1.0)
x.index_fill(m, L.tensor([0]), 1.0)
L.trapezoid(x, dim=m)
L.gradient(x, dim=m)
L.cov(x, correction=n)
L.polygamma(n, x)
L.mvlgamma(x.abs() + 9, n)
L.nanmean(x, m)
L.linalg.vector_norm(x, 2, m)
L.linalg.tensorinv(L.eye(4).view(2, 2, 2, 2) + 0.1, ind=m + 1)
L.svd_lowrank(x, q=n)[1].shape
L.var_mean(x, m)
L.aminmax(x, dim=m)
L.repeat_interleave(x, n, dim=m)
x.resize_(n, 2).shape
x.squeeze(m).shape
x.random_(n).shape
x.random_(m, n).shape
L.nn.init.dirac_(L.empty(3, 3, 3), n)
L.broadcast_to(x, (n, 6, 6)).shape
x.broadcast_to((n, 6, 6)).shape
x.to_sparse(m).to_dense()
L.sparse_coo_tensor(L.tensor([[0]]), L.tensor([1.0]), (n,)).to_dense()
L.empty_strided((n, 2), (2, 1)).shape
x.new_empty_strided((n, 2), (2, 1)).shape
L.special.multigammaln(x.abs() + 9, n)
L.special.polygamma(n, x)
L.special.round(x, decimals=n)
x.scatter_add(m, L.zeros(6, 6, dtype=L.int64), x)
L.nn.functional.pdist(x, n)
L.nn.functional.pairwise_distance(x, x, n)
x.clamp(n)
x.pow(n)
x ** n
x + n
n + x
x * n
n * x
x - n
n - x
x / n
n / x
x // n
x % n
x < n
n < x
L.clamp(x, m, n)
L.where(x > 0, x, n)
L.full_like(x, n)
x.fill_(n)
x.masked_fill(x > 0, n)
L.add(x, x, alpha=n)
L.sub(x, x, alpha=n)
L.addmm(x, x, x, beta=n, alpha=n)
L.tensor(n)
L.tensor([n, n])
L.as_tensor(n)
L.scalar_tensor(n)
x.scatter_reduce(m, L.zeros(6, 6, dtype=L.int64), x, "sum")
F.fold(L.ones(1, 9, 16), n + 3, n)
x[n]
x[n:]
x[n, m]
x[:, n]
L.nn.utils.rnn.pack_padded_sequence(x[None], [n], batch_first=True).data
[b.shape for b in L.utils.data.DataLoader(L.arange(6), batch_size=n)]
""".splitlines()

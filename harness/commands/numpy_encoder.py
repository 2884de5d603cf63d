"""A BERT-like encoder and its gradients in plain NumPy: what `describe numpy` shows, and a check on `models/` from outside.

B sequences, T tokens, D hidden, F feed-forward, H heads, K = D / H head size, V vocabulary, N predicted places, C classes.

Every function is followed by its backward. There `dx` means the gradient of the loss with respect to `x`; it has the shape
of `x`. Backward functions take `dy`, the gradient of what came out, and return the gradients of what went in. Functions
without parameters of their own return plain arrays; the larger pieces also return a trace, what their backward needs again.

Parameters are a dict of arrays named as in the state dict of `models.encoder.Encoder`; gradients are a dict of the same
names. A piece sees its own names alone (`own`), and its gradients are added to the whole under their prefix (`add`), so that
the gradient of a shared layer, or of a table used twice, is the sum over its uses.
"""

import math

import numpy as np
from scipy.special import erf

EPSILON = 1e-12
"""Added to the variance in a layer norm, as BERT."""


def own(parameters, prefix):
    """The parameters below `prefix`, under their names without it."""
    return {name.removeprefix(prefix): value for name, value in parameters.items() if name.startswith(prefix)}


def add(gradients, prefix, part):
    """Adds the gradients of a piece to those of the whole."""
    for name, value in part.items():
        gradients[prefix + name] = gradients.get(prefix + name, 0) + value


# One operation


def linear(x, p):
    """y = x W^T + b with W (out, in): (..., in) -> (..., out)."""
    return x @ p["weight"].T + p["bias"]


def linear_backward(dy, x, p):
    """dx = dy W, dW = dy^T x, db = dy, the last two summed over every row."""
    dy_rows, x_rows = dy.reshape(-1, dy.shape[-1]), x.reshape(-1, x.shape[-1])
    return dy @ p["weight"], {"weight": dy_rows.T @ x_rows, "bias": dy_rows.sum(0)}


def layer_norm(x, p):
    """y = g z + b with z = (x - mean x) / sqrt(var x + eps), over the last axis: (..., D) -> (..., D)."""
    z, _ = normalise(x)
    return p["weight"] * z + p["bias"]


def layer_norm_backward(dy, x, p):
    """dz = g dy; dx = (dz - mean dz - z mean(dz z)) / sqrt(var x + eps); dg = dy z and db = dy, summed over every row.

    The two means are the parts of dz that cannot reach x: z keeps mean 0 and variance 1 whatever x does.
    """
    z, deviation = normalise(x)
    dz = dy * p["weight"]
    dx = (dz - dz.mean(-1, keepdims=True) - z * (dz * z).mean(-1, keepdims=True)) / deviation
    rows = tuple(range(dy.ndim - 1))
    return dx, {"weight": (dy * z).sum(rows), "bias": dy.sum(rows)}


def normalise(x):
    """z and the deviation it was divided by, (..., D) and (..., 1)."""
    deviation = np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    return (x - x.mean(-1, keepdims=True)) / deviation, deviation


def gelu(x):
    """y = x P(x), P the cumulative normal distribution (1 + erf(x / sqrt 2)) / 2 (arXiv:1606.08415)."""
    return x * cumulative_normal(x)


def gelu_backward(dy, x):
    """dx = dy (P(x) + x P'(x)), P' the normal density."""
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return dy * (cumulative_normal(x) + x * density)


def cumulative_normal(x):
    """P(x), exactly: the tanh formula in wide use is an approximation of it. NumPy has no erf; SciPy's is used."""
    return (1 + erf(x / math.sqrt(2))) / 2


def softmax(s):
    """p_i = exp s_i / sum_j exp s_j over the last axis; a score of minus infinity gets probability 0."""
    powers = np.exp(s - s.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def softmax_backward(dp, p):
    """ds_i = p_i (dp_i - sum_j dp_j p_j)."""
    return p * (dp - (dp * p).sum(-1, keepdims=True))


def lookup(table, ids):
    """Rows of a table: (V, D), (B, T) -> (B, T, D)."""
    return table[ids]


def lookup_backward(dy, table, ids):
    """Every row of the table gets the sum of dy over the places where it was looked up: -> (V, D)."""
    dtable = np.zeros_like(table)
    np.add.at(dtable, ids, dy)
    return dtable


def cross_entropy(logits, labels):
    """Mean over N rows of -log softmax(logits)[label]: (N, C), (N,) -> number, in nats."""
    return -np.log(softmax(logits)[np.arange(len(labels)), labels]).mean()


def cross_entropy_backward(logits, labels):
    """dlogits = (softmax(logits) - one-hot label) / N."""
    dlogits = softmax(logits)
    dlogits[np.arange(len(labels)), labels] -= 1
    return dlogits / len(labels)


# Attention


def split_heads(x, heads):
    """(B, T, D) -> (B, H, T, K): head h owns features hK to (h + 1)K - 1."""
    batch, length, hidden = x.shape
    return x.reshape(batch, length, heads, hidden // heads).transpose(0, 2, 1, 3)


def join_heads(x):
    """(B, H, T, K) -> (B, T, D), the inverse of `split_heads` and therefore its backward."""
    batch, heads, length, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


def attention(x, p, mask, heads):
    """softmax(Q K^T / sqrt K) V per head, joined and projected (arXiv:1706.03762): (B, T, D) -> (B, T, D).

    One matrix makes all three: its 3D output rows are those of the query, then the key, then the value, each of them H
    heads of K rows. `mask` (B, T) is true for real tokens: padding is seen by nobody.
    """
    q, k, v = (split_heads(part, heads) for part in np.split(linear(x, own(p, "query_key_value.")), 3, axis=-1))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])  # (B, H, T, T)
    probabilities = softmax(np.where(mask[:, None, None, :], scores, -np.inf))
    context = join_heads(probabilities @ v)
    return linear(context, own(p, "output.")), (x, q, k, v, probabilities, context)


def attention_backward(dy, p, trace):
    """With A the probabilities and S the scores: dV = A^T dY, dA = dY V^T, dQ = dS K / sqrt K, dK = dS^T Q / sqrt K."""
    x, q, k, v, probabilities, context = trace
    gradients = {}
    dcontext, part = linear_backward(dy, context, own(p, "output."))
    add(gradients, "output.", part)
    dcontext = split_heads(dcontext, q.shape[1])
    dv = probabilities.swapaxes(-1, -2) @ dcontext
    dscores = softmax_backward(dcontext @ v.swapaxes(-1, -2), probabilities) / math.sqrt(q.shape[-1])
    dq, dk = dscores @ k, dscores.swapaxes(-1, -2) @ q
    dfused = np.concatenate([join_heads(d) for d in (dq, dk, dv)], axis=-1)  # (B, T, 3D)
    dx, part = linear_backward(dfused, x, own(p, "query_key_value."))
    add(gradients, "query_key_value.", part)
    return dx, gradients


# Feed-forward and layer


def feed_forward(x, p):
    """gelu(x W1^T + b1) W2^T + b2: (B, T, D) -> (B, T, F) -> (B, T, D)."""
    inner = linear(x, own(p, "input."))
    return linear(gelu(inner), own(p, "output.")), (x, inner)


def feed_forward_backward(dy, p, trace):
    """The chain backwards: second matrix, gelu, first matrix."""
    x, inner = trace
    gradients = {}
    dactive, part = linear_backward(dy, gelu(inner), own(p, "output."))
    add(gradients, "output.", part)
    dx, part = linear_backward(gelu_backward(dactive, inner), x, own(p, "input."))
    add(gradients, "input.", part)
    return dx, gradients


def layer(x, attention_block, feed_forward_block, mask, heads):
    """a = norm(x + attention(x)), y = norm(a + feed_forward(a)): the norm comes after the sum."""
    attended, attention_trace = attention(x, own(attention_block, "attention."), mask, heads)
    first = x + attended
    middle = layer_norm(first, own(attention_block, "norm."))
    fed, feed_forward_trace = feed_forward(middle, own(feed_forward_block, "feed_forward."))
    second = middle + fed
    return layer_norm(second, own(feed_forward_block, "norm.")), (first, second, attention_trace, feed_forward_trace)


def layer_backward(dy, attention_block, feed_forward_block, trace):
    """A sum hands its gradient to both terms, so each residual adds its own path to that of its branch."""
    first, second, attention_trace, feed_forward_trace = trace
    attention_gradients, feed_forward_gradients = {}, {}
    dsecond, part = layer_norm_backward(dy, second, own(feed_forward_block, "norm."))
    add(feed_forward_gradients, "norm.", part)
    dmiddle, part = feed_forward_backward(dsecond, own(feed_forward_block, "feed_forward."), feed_forward_trace)
    add(feed_forward_gradients, "feed_forward.", part)
    dfirst, part = layer_norm_backward(dsecond + dmiddle, first, own(attention_block, "norm."))
    add(attention_gradients, "norm.", part)
    dx, part = attention_backward(dfirst, own(attention_block, "attention."), attention_trace)
    add(attention_gradients, "attention.", part)
    return dfirst + dx, attention_gradients, feed_forward_gradients


# Encoder


def embeddings(ids, types, p):
    """norm(token + position + type): (B, T), (B, T) -> (B, T, D)."""
    places = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    indices = {"token_embedding.weight": ids, "position_embedding.weight": places, "type_embedding.weight": types}
    total = sum(lookup(p[name], index) for name, index in indices.items())
    return layer_norm(total, own(p, "norm.")), (total, indices)


def embeddings_backward(dy, p, trace, padding):
    """The sum hands its gradient to all three tables; the row of the padding token stays as it is."""
    total, indices = trace
    gradients = {}
    dtotal, part = layer_norm_backward(dy, total, own(p, "norm."))
    add(gradients, "norm.", part)
    add(gradients, "", {name: lookup_backward(dtotal, p[name], index) for name, index in indices.items()})
    gradients["token_embedding.weight"][padding] = 0
    return gradients


def blocks(p, index):
    """The parameters of a layer's two halves."""
    return own(p, f"layers.attentions.{index}."), own(p, f"layers.feed_forwards.{index}.")


def encoder(ids, types, mask, p, heads, order):
    """Embeddings, then the layers that `order` lists, a shared one more than once: (B, T) -> (B, T, D)."""
    hidden, embeddings_trace = embeddings(ids, types, own(p, "embeddings."))
    traces = []
    for index in order:
        hidden, trace = layer(hidden, *blocks(p, index), mask, heads)
        traces.append(trace)
    return hidden, (embeddings_trace, traces, order)


def encoder_backward(dhidden, p, trace, padding):
    """The layers in reverse: (B, T, D) -> gradients of every parameter of the encoder."""
    embeddings_trace, traces, order = trace
    gradients = {}
    for index, layer_trace in zip(reversed(order), reversed(traces), strict=True):
        dhidden, attention_part, feed_forward_part = layer_backward(dhidden, *blocks(p, index), layer_trace)
        add(gradients, f"layers.attentions.{index}.", attention_part)
        add(gradients, f"layers.feed_forwards.{index}.", feed_forward_part)
    add(gradients, "embeddings.", embeddings_backward(dhidden, own(p, "embeddings."), embeddings_trace, padding))
    return gradients


# Heads


def masked_lm(hidden, places, p, table):
    """norm(gelu(h W^T + b)) E^T + c at the chosen places, E the table of token embeddings: (B, T, D) -> (N, V).

    `places` is two (N,) arrays, the rows and columns of (B, T) to predict (arXiv:1810.04805, section 3.1).
    """
    chosen = hidden[places]  # (N, D)
    inner = linear(chosen, own(p, "dense."))
    active = gelu(inner)
    normed = layer_norm(active, own(p, "norm."))
    return normed @ table.T + p["bias"], (hidden.shape, places, chosen, inner, active, normed)


def masked_lm_backward(dlogits, p, table, trace):
    """-> dhidden (B, T, D), zero where nothing was predicted; gradients of the head; dtable (V, D), dE = dlogits^T z."""
    shape, places, chosen, inner, active, normed = trace
    gradients = {"bias": dlogits.sum(0)}
    dactive, part = layer_norm_backward(dlogits @ table, active, own(p, "norm."))
    add(gradients, "norm.", part)
    dchosen, part = linear_backward(gelu_backward(dactive, inner), chosen, own(p, "dense."))
    add(gradients, "dense.", part)
    dhidden = np.zeros(shape)
    np.add.at(dhidden, places, dchosen)
    return dhidden, gradients, dlogits.T @ normed

"""The models of tests/models as PyTorch users would have them: the peer of bench/train.py.

Keras: the layer graph of the JSON file is walked layer by layer. Data comes as [N, C, H, W]. What PyTorch does better than a literal walk is done
its way, so that the peer is not slowed: zero padding goes into the window that follows (behind a ReLU a pool may see -inf for 0: the results and
the gradients are the same), ReLU works in place, the rows of a dense kernel behind Flatten are put into NCHW order once.
gpt: the decoder of tests/models/make_gpt.py, written with PyTorch's own linear, layer_norm and gelu."""
import torch
import torch.nn.functional as F

import keras_graph
import tensors


def pair(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


def activate(x, name):
    if name == "relu":
        return F.relu_(x)
    if name == "softmax":
        return F.softmax(x, -1)
    if name == "sigmoid":
        return torch.sigmoid(x)
    if name in (None, "linear"):
        return x
    raise ValueError(f"activation {name} is not written down here")


class Keras(torch.nn.Module):
    def __init__(self, path, weights):
        super().__init__()
        self.layers = keras_graph.layers(path)
        self.last_use = {name: k for k, (_, _, _, inputs) in enumerate(self.layers) for name in inputs}
        self.weights = {}
        kinds = {name: kind for name, kind, _, _ in self.layers}
        for name, kind, _, inputs in self.layers:
            joined = kind == "Dense" and kinds[inputs[0]] == "Flatten"
            for key in [k for k in weights if k.rsplit("/", 1)[0] == name]:
                self.take(key, weights[key], self.channels(name) if joined else None)

    def channels(self, name):
        """How many a layer has: its own filters, or those of what it takes."""
        _, _, config, inputs = next(layer for layer in self.layers if layer[0] == name)
        return config["filters"] if "filters" in config else self.channels(inputs[0])

    def take(self, key, array, channels):
        """@param channels  of what a Flatten joins, whose rows have another order here; None: nothing is joined"""
        t = torch.from_numpy(array.copy())
        if t.dim() == 4:  # [kh, kw, in, out]; of a transposed convolution [kh, kw, out, in]: PyTorch has these two and then the window
            t = t.permute(3, 2, 0, 1)
        elif t.dim() == 2:
            if channels and t.shape[0] > channels:
                t = t.view(-1, channels, t.shape[1]).transpose(0, 1).reshape(t.shape)
            t = t.t()
        t = t.contiguous()
        name = key.replace("/", "__")
        if "moving_" in key:
            self.register_buffer(name, t)
        else:
            self.register_parameter(name, torch.nn.Parameter(t))
        self.weights[key] = name

    def weight(self, layer, what):
        name = self.weights.get(f"{layer}/{what}")
        return getattr(self, name) if name else None

    def forward(self, x):
        values = {}
        for k, (name, kind, config, inputs) in enumerate(self.layers):
            given = [values[i] for i in inputs]
            for i in inputs:
                if self.last_use[i] == k:
                    del values[i]
            values[name] = (x, 0) if kind == "InputLayer" else self.call(name, kind, config, given)
            del given
            if kind == "InputLayer":
                del x
        return values[name][0]

    def call(self, name, kind, config, given):
        """@param given  pairs of a value and the zeros around it that are still to be added; @return such a pair"""
        x, pad = given[0]
        if kind == "ZeroPadding2D":
            (top, bottom), (left, right) = config["padding"]
            if not top == bottom == left == right:
                raise ValueError(f"{name}: padding that is not the same everywhere is not written down here")
            return x, pad + top
        if kind in ("Conv2D", "MaxPooling2D"):
            return getattr(self, kind)(name, config, x, pad), 0
        if pad:
            raise ValueError(f"{name}: {kind} behind ZeroPadding2D is not written down here")
        return getattr(self, kind)(name, config, *[v for v, _ in given]), 0

    def Conv2D(self, name, config, x, pad):
        size, stride = pair(config["kernel_size"]), pair(config["strides"])
        if config["padding"] == "same":
            if stride != (1, 1) or size[0] % 2 == 0:
                raise ValueError(f"{name}: this 'same' is not symmetric and not written down here")
            pad = size[0] // 2
        x = F.conv2d(x, self.weight(name, "kernel"), self.weight(name, "bias"), stride, pad)
        return activate(x, config["activation"])

    def Conv2DTranspose(self, name, config, x):
        if pair(config["kernel_size"]) != pair(config["strides"]):
            raise ValueError(f"{name}: transposed windows that overlap are not written down here")
        x = F.conv_transpose2d(x, self.weight(name, "kernel"), self.weight(name, "bias"), pair(config["strides"]))
        return activate(x, config["activation"])

    def MaxPooling2D(self, name, config, x, pad):
        if config["padding"] != "valid":
            raise ValueError(f"{name}: padding '{config['padding']}' is not written down here")
        return F.max_pool2d(x, pair(config["pool_size"]), pair(config["strides"]), pad)

    def BatchNormalization(self, name, config, x):
        return F.batch_norm(x, self.weight(name, "moving_mean"), self.weight(name, "moving_variance"), self.weight(name, "gamma"),
                            self.weight(name, "beta"), self.training, 1 - config["momentum"], config["epsilon"])

    def Dense(self, name, config, x):
        return activate(F.linear(x, self.weight(name, "kernel"), self.weight(name, "bias")), config["activation"])

    def Activation(self, name, config, x):
        return activate(x, config["activation"])

    def Add(self, name, config, x, y):
        return x + y

    def Concatenate(self, name, config, *parts):
        return torch.cat(parts, 1)

    def Flatten(self, name, config, x):
        return x.flatten(1)

    def GlobalAveragePooling2D(self, name, config, x):
        return x.mean((2, 3))


class Gpt(torch.nn.Module):
    LAYERS, HEADS = 6, 6

    def __init__(self, weights):
        super().__init__()
        for name, array in weights.items():
            t = torch.from_numpy(array.copy())
            if name.endswith(".weight"):
                t = t.t().contiguous()  # as PyTorch's linear has it
            self.register_parameter(name.replace(".", "__"), torch.nn.Parameter(t))
        n = weights["positions"].shape[0]
        self.register_buffer("mask", torch.full((n, n), float("-inf")).triu(1))

    def of(self, name):
        return getattr(self, name.replace(".", "__"))

    def norm(self, x, name):
        scale = self.of(name + ".scale")
        return F.layer_norm(x, scale.shape, scale, self.of(name + ".shift"), 1e-5)

    def linear(self, x, name):
        return F.linear(x, self.of(name + ".weight"), self.of(name + ".bias"))

    def attention(self, x, name):
        def heads(part):
            return self.linear(x, f"{name}.{part}").view(x.shape[0], x.shape[1], self.HEADS, -1).transpose(1, 2)

        q, k, v = heads("q"), heads("k"), heads("v")
        w = F.softmax(q @ k.transpose(2, 3) * q.shape[-1] ** -0.5 + self.mask, -1)
        return self.linear((w @ v).transpose(1, 2).reshape(x.shape), name + ".out")

    def forward(self, ids):
        x = F.embedding(ids, self.tokens) + self.positions
        for i in range(self.LAYERS):
            name = f"layer{i}"
            x = x + self.attention(self.norm(x, name + ".norm1"), name + ".attention")
            y = F.gelu(self.linear(self.norm(x, name + ".norm2"), name + ".up"))
            x = x + self.linear(y, name + ".down")
        return F.linear(self.norm(x, "norm"), self.of("head.weight"))


def load(path, weights):
    """@param weights  a .safetensors file; for gpt the ONNX file has them"""
    if path.endswith(".onnx"):
        return Gpt({name: a for name, a, _ in tensors.onnx_initializers(path) if a.ndim and a.dtype == "f4"})
    return Keras(path, tensors.safetensors_read(weights))

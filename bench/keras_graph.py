"""The layer graph of a Keras JSON file, as far as the models of tests/models go. Plain Python: PyTorch need not be there."""
import json
import math


def history(node):
    """The layers whose values one call takes: Keras 2 has lists, Keras 3 objects."""
    if isinstance(node, list):
        return [call[0] for call in node]
    names = []

    def walk(part):
        if isinstance(part, dict) and part.get("class_name") == "__keras_tensor__":
            names.append(part["config"]["keras_history"][0])
        elif isinstance(part, (dict, list)):
            for p in part.values() if isinstance(part, dict) else part:
                walk(p)

    walk(node["args"])
    return names


def layers(path):
    """(name, kind, config, names of inputs), in the file's order, which is one in which they can run."""
    with open(path) as f:
        model = json.load(f)
    found, before = [], None
    for layer in model["config"]["layers"]:
        config = layer["config"]
        if model["class_name"] == "Sequential":
            inputs = [before] if before else []
        else:
            inputs = history(layer["inbound_nodes"][0]) if layer["inbound_nodes"] else []
        found.append((config["name"], layer["class_name"], config, inputs))
        before = config["name"]
    return found


def input_shape(found):
    """[H, W, C]"""
    config = found[0][2]
    return tuple((config.get("batch_shape") or config["batch_input_shape"])[1:])


def conv_shape(config, x, transposed):
    size, stride = config["kernel_size"], config["strides"]
    if transposed:
        return [x[d] * stride[d] for d in (0, 1)] + [config["filters"]]
    less = [n - 1 if config["padding"] == "valid" else 0 for n in size]
    return [-(-(x[d] - less[d]) // stride[d]) for d in (0, 1)] + [config["filters"]]


def weight_shapes(found):
    """(name, shape, whether the kernel is of a transposed convolution) of every weight, in order; follows what the layers give: [H, W, C] or [C]."""
    given = {}
    for layer, kind, config, inputs in found:
        x = list(given[inputs[0]]) if inputs else list(input_shape(found))
        if kind in ("Conv2D", "Conv2DTranspose"):
            transposed = kind == "Conv2DTranspose"
            ends = [config["filters"], x[2]] if transposed else [x[2], config["filters"]]
            yield layer + "/kernel", [*config["kernel_size"], *ends], transposed
            yield layer + "/bias", [config["filters"]], False
            x = conv_shape(config, x, transposed)
        elif kind == "MaxPooling2D":
            x[:2] = [(x[d] - config["pool_size"][d]) // config["strides"][d] + 1 for d in (0, 1)]
        elif kind == "ZeroPadding2D":
            x[:2] = [x[d] + sum(config["padding"][d]) for d in (0, 1)]
        elif kind == "BatchNormalization":
            for what in ("gamma", "beta", "moving_mean", "moving_variance"):
                yield f"{layer}/{what}", [x[-1]], False
        elif kind == "Concatenate":
            x[-1] = sum(given[i][-1] for i in inputs)
        elif kind == "GlobalAveragePooling2D":
            x = x[2:]
        elif kind == "Flatten":
            x = [math.prod(x)]
        elif kind == "Dense":
            yield layer + "/kernel", [x[0], config["units"]], False
            yield layer + "/bias", [config["units"]], False
            x = [config["units"]]
        given[layer] = x


def fans(shape, transposed):
    """Inputs and outputs of a kernel, as Keras counts them."""
    window = math.prod(shape[:-2])
    return (window * shape[-1], window * shape[-2]) if transposed else (window * shape[-2], window * shape[-1])

#!/usr/bin/python3
"""Writes the architectures of this folder: make.py [FOLDER]. Plain Python, no Keras.

small, wide, deep, slim   Sequential, as Keras 3 writes them
resnet50                  Functional, as Keras 2 writes it (inbound nodes are lists)
unet                      Functional, as Keras 3 writes it (inbound nodes are objects)
"""
import json
import os
import sys


class Model:
    """Collects layers. keras: 2 or 3, the form of everything."""

    def __init__(self, keras, name, functional):
        self.keras, self.name, self.functional = keras, name, functional
        self.layers, self.shape, self.count = [], {}, {}

    def initializer(self, kind):
        if self.keras == 2:
            return {"class_name": kind, "config": {"seed": None} if kind == "GlorotUniform" else {}}
        config = {"seed": None} if kind == "GlorotUniform" else {}
        return {"module": "keras.initializers", "class_name": kind, "config": config, "registered_name": None}

    def dtype(self):
        if self.keras == 2:
            return "float32"
        return {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}, "registered_name": None}

    def auto_name(self, prefix):
        n = self.count.get(prefix, 0)
        self.count[prefix] = n + 1
        return prefix if n == 0 else "%s_%d" % (prefix, n)

    def node(self, inputs):
        if self.keras == 2:
            return [[[name, 0, 0, {}] for name in inputs]]
        tensors = [{"class_name": "__keras_tensor__",
                    "config": {"shape": self.shape[name], "dtype": "float32", "keras_history": [name, 0, 0]}} for name in inputs]
        return [{"args": [tensors if len(tensors) > 1 else tensors[0]], "kwargs": {}}]

    def add(self, kind, name, inputs, shape, **config):
        """One layer; shape is what it gives, without the batch. Returns its name."""
        full = {"name": name, "trainable": True, "dtype": self.dtype()}
        full.update(config)
        layer = {"class_name": kind, "config": full}
        if self.keras == 3:
            layer = {"module": "keras.layers", "class_name": kind, "config": full, "registered_name": None}
        if self.functional:
            layer["name"] = name
            layer["inbound_nodes"] = self.node(inputs) if inputs else []
        self.layers.append(layer)
        self.shape[name] = [None] + shape
        return name

    def input(self, shape, name="input_1"):
        key = "batch_input_shape" if self.keras == 2 else "batch_shape"
        full = {key: [None] + shape, "dtype": "float32", "sparse": False, "ragged": False, "name": name}
        layer = {"class_name": "InputLayer", "config": full}
        if self.keras == 3:
            layer = {"module": "keras.layers", "class_name": "InputLayer", "config": full, "registered_name": None}
        if self.functional:
            layer["name"] = name
            layer["inbound_nodes"] = []
        self.layers.append(layer)
        self.shape[name] = [None] + shape
        return name

    def conv(self, x, filters, size, strides=1, padding="same", activation="relu", name=None, kind="Conv2D"):
        h, w = self.shape[x][1:3]
        if kind == "Conv2DTranspose":
            h, w = h * strides, w * strides
        elif padding == "same":
            h, w = -(-h // strides), -(-w // strides)
        else:
            h, w = (h - size) // strides + 1, (w - size) // strides + 1
        return self.add(kind, name or self.auto_name("conv2d" if kind == "Conv2D" else "conv2d_transpose"), [x], [h, w, filters],
                        filters=filters, kernel_size=[size, size], strides=[strides, strides], padding=padding, data_format="channels_last",
                        dilation_rate=[1, 1], groups=1, activation=activation, use_bias=True,
                        kernel_initializer=self.initializer("GlorotUniform"), bias_initializer=self.initializer("Zeros"),
                        kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, bias_constraint=None)

    def max_pool(self, x, size, strides=None, padding="valid", name=None):
        h, w, c = self.shape[x][1:]
        s = strides or size
        return self.add("MaxPooling2D", name or self.auto_name("max_pooling2d"), [x], [(h - size) // s + 1, (w - size) // s + 1, c],
                        pool_size=[size, size], strides=[s, s], padding=padding, data_format="channels_last")

    def dense(self, x, units, activation, name=None):
        return self.add("Dense", name or self.auto_name("dense"), [x], [units], units=units, activation=activation, use_bias=True,
                        kernel_initializer=self.initializer("GlorotUniform"), bias_initializer=self.initializer("Zeros"),
                        kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, bias_constraint=None)

    def flatten(self, x):
        h, w, c = self.shape[x][1:]
        return self.add("Flatten", self.auto_name("flatten"), [x], [h * w * c], data_format="channels_last")

    def global_average(self, x, name=None):
        return self.add("GlobalAveragePooling2D", name or self.auto_name("global_average_pooling2d"), [x], [self.shape[x][3]],
                        data_format="channels_last", keepdims=False)

    def batch_norm(self, x, name):
        return self.add("BatchNormalization", name, [x], self.shape[x][1:], axis=[3], momentum=0.99, epsilon=1.001e-05, center=True, scale=True,
                        beta_initializer=self.initializer("Zeros"), gamma_initializer=self.initializer("Ones"),
                        moving_mean_initializer=self.initializer("Zeros"), moving_variance_initializer=self.initializer("Ones"),
                        beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None)

    def relu(self, x, name):
        return self.add("Activation", name, [x], self.shape[x][1:], activation="relu")

    def pad(self, x, n, name):
        h, w, c = self.shape[x][1:]
        return self.add("ZeroPadding2D", name, [x], [h + 2 * n, w + 2 * n, c], padding=[[n, n], [n, n]], data_format="channels_last")

    def write(self, folder, first, last):
        config = {"name": self.name, "trainable": True}
        if self.functional:
            config["input_layers"] = [[first, 0, 0]]
            config["output_layers"] = [[last, 0, 0]]
        else:
            config["build_input_shape"] = self.shape[first]
        kind = "Functional" if self.functional else "Sequential"
        head = {"module": "keras.src.models.functional" if self.functional else "keras", "class_name": kind, "registered_name": None}
        if self.keras == 2:
            head = {"class_name": kind, "keras_version": "2.13.1", "backend": "tensorflow"}
        with open(os.path.join(folder, self.name + ".json"), "w") as f:
            f.write(json.dumps(head)[:-1] + ', "config": ' + json.dumps(config)[:-1] + ', "layers": [\n')
            f.write(",\n".join(json.dumps(layer) for layer in self.layers))
            f.write("\n]}}\n")


def small(name, size):
    m = Model(3, name, False)
    first = x = m.input([size, size, 3], "input_layer")
    x = m.conv(x, 32, 3, padding="valid")
    x = m.max_pool(x, 2)
    x = m.flatten(x)
    return m, first, m.dense(x, 10, "softmax")


def stack(name, levels):
    m = Model(3, name, False)
    first = x = m.input([128, 128, 3], "input_layer")
    for i, level in enumerate(levels):
        if i:
            x = m.max_pool(x, 2)
        for filters in level:
            x = m.conv(x, filters, 3)
    x = m.global_average(x)
    return m, first, m.dense(x, 10, "softmax")


def resnet(name, blocks):
    m = Model(2, name, True)
    first = x = m.input([224, 224, 3])
    x = m.pad(x, 3, "conv1_pad")
    x = m.conv(x, 64, 7, 2, "valid", "linear", "conv1_conv")
    x = m.relu(m.batch_norm(x, "conv1_bn"), "conv1_relu")
    x = m.pad(x, 1, "pool1_pad")
    x = m.max_pool(x, 3, 2, name="pool1_pool")
    for stage, (filters, n) in enumerate(zip([64, 128, 256, 512], blocks), 2):
        for block in range(1, n + 1):
            name = "conv%d_block%d" % (stage, block)
            strides = 2 if block == 1 and stage > 2 else 1
            skip = x
            if block == 1:
                skip = m.conv(x, 4 * filters, 1, strides, "valid", "linear", name + "_0_conv")
                skip = m.batch_norm(skip, name + "_0_bn")
            x = m.conv(x, filters, 1, strides, "valid", "linear", name + "_1_conv")
            x = m.relu(m.batch_norm(x, name + "_1_bn"), name + "_1_relu")
            x = m.conv(x, filters, 3, 1, "same", "linear", name + "_2_conv")
            x = m.relu(m.batch_norm(x, name + "_2_bn"), name + "_2_relu")
            x = m.conv(x, 4 * filters, 1, 1, "valid", "linear", name + "_3_conv")
            x = m.batch_norm(x, name + "_3_bn")
            x = m.add("Add", name + "_add", [skip, x], m.shape[x][1:])
            x = m.relu(x, name + "_out")
    x = m.global_average(x, "avg_pool")
    return m, first, m.dense(x, 1000, "softmax", "predictions")


def unet():
    m = Model(3, "unet", True)
    first = x = m.input([2048, 2048, 3], "input_layer")
    skips = []
    for level in range(4):
        if level:
            x = m.max_pool(x, 2)
        for _ in range(2):
            x = m.conv(x, 16 << level, 3)
        skips.append(x)
    for level in range(2, -1, -1):
        x = m.conv(x, 16 << level, 2, 2, "same", "linear", kind="Conv2DTranspose")
        h, w, c = m.shape[x][1:]
        x = m.add("Concatenate", m.auto_name("concatenate"), [skips[level], x], [h, w, c + m.shape[skips[level]][3]], axis=-1)
        for _ in range(2):
            x = m.conv(x, 16 << level, 3)
    return m, first, m.conv(x, 1, 1, 1, "same", "sigmoid")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    if len(sys.argv) > 3:  # one residual net: make.py FOLDER NAME BLOCKS BLOCKS BLOCKS BLOCKS
        m, first, last = resnet(sys.argv[2], [int(n) for n in sys.argv[3:7]])
        return m.write(folder, first, last)
    deep, slim = [[256, 256], [512, 512], [1024, 1024]], [[64], [128]]
    for m, first, last in [small("small", 128), small("wide", 1024), stack("deep", deep), stack("slim", slim), resnet("resnet50", [3, 4, 6, 3]), unet()]:
        m.write(folder, first, last)


main()

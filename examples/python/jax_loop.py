"""A JAX training loop over a dlpipe loader: python jax_loop.py DATA"""

import sys

import jax
import jax.numpy as jnp

import dlpipe

data = sys.argv[1]
# JAX's arrays over the memory that the batches were decoded into: float32 [32, 28, 28, 3].
train = dlpipe.Loader(data, augment="rrc(28) hflip", batch=32, dtype="f32", seed=1, as_="jax")

size, hidden, classes = 28 * 28 * 3, 64, len(train.classes)
keys = jax.random.split(jax.random.PRNGKey(0), 2)
parameters = {
    "w1": jax.random.normal(keys[0], (size, hidden)) * size**-0.5,
    "b1": jnp.zeros(hidden),
    "w2": jax.random.normal(keys[1], (hidden, classes)) * hidden**-0.5,
    "b2": jnp.zeros(classes),
}


def loss_of(parameters, images, labels):
    x = jax.nn.relu(images.reshape(len(images), -1) @ parameters["w1"] + parameters["b1"])
    log_probabilities = jax.nn.log_softmax(x @ parameters["w2"] + parameters["b2"])
    return -jnp.take_along_axis(log_probabilities, labels[:, None], axis=1).mean()


@jax.jit
def step(parameters, images, labels):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, images, labels)
    return loss, jax.tree.map(lambda p, g: p - 0.05 * g, parameters, gradients)


for epoch in range(3):
    for images, labels in train:
        loss, parameters = step(parameters, images, labels)
    print(f"epoch {epoch}: loss {loss:.3f}")

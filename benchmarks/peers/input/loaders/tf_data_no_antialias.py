# /// script
# dependencies = ["tensorflow-cpu==2.21.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "tensorflow"
# ///
"""tf.data as tf_data.py has it, with tf.image.resize's default: two-tap bilinear, which aliases."""

import tf_data

if __name__ == "__main__":
    tf_data.loading.main(
        tf_data.loader(antialias=False),
        antialiased=False,
        about="decodes the crop only, plain bilinear in float; threads",
        versions={"TensorFlow": tf_data.tf.__version__},
    )

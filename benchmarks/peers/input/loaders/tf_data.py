# /// script
# dependencies = ["tensorflow-cpu==2.21.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "tensorflow"
# ///
"""tf.data with the fused decode-and-crop; antialias=True."""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import tensorflow as tf  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loading  # noqa: E402


def as_bytes(pixels):
    return tf.cast(tf.clip_by_value(tf.round(pixels), 0.0, 255.0), tf.uint8)


def rrc(encoded, size, antialias):
    begin, extent, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(encoded),
        bounding_boxes=tf.zeros([1, 0, 4]),
        min_object_covered=0.0,
        aspect_ratio_range=loading.RATIO,
        area_range=loading.SCALE,
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.concat([begin[:2], extent[:2]], axis=0)
    crop = tf.image.decode_and_crop_jpeg(encoded, window, channels=3)
    return as_bytes(tf.image.random_flip_left_right(tf.image.resize(crop, [size, size], antialias=antialias)))


def val(encoded, size, antialias):
    shape = tf.cast(tf.io.extract_jpeg_shape(encoded)[:2], tf.float32)
    sides = tf.cast(tf.round(shape * loading.resized_side(size) / tf.reduce_min(shape)), tf.int32)
    small = tf.image.resize(tf.io.decode_jpeg(encoded, channels=3), sides, antialias=antialias)
    return as_bytes(tf.image.resize_with_crop_or_pad(small, size, size))


def small(encoded, size, antialias):
    image = tf.io.decode_jpeg(encoded, channels=3)
    around = size + 2 * loading.PADDING
    padded = tf.image.resize_with_crop_or_pad(image, around, around)
    return tf.image.random_flip_left_right(tf.image.random_crop(padded, [size, size, 3]))


def loader(antialias):
    def make_batches(args):
        tf.config.threading.set_inter_op_parallelism_threads(args.threads)
        tf.config.threading.set_intra_op_parallelism_threads(1)
        task = {"rrc": rrc, "val": val, "small": small}[args.task]

        def load(path):
            return task(tf.io.read_file(path), args.size, antialias)

        images = tf.data.Dataset.from_tensor_slices(args.files).shuffle(len(args.files)).repeat()
        images = images.map(load, num_parallel_calls=args.threads, deterministic=False)
        images = images.batch(args.batch, drop_remainder=True).prefetch(2)
        options = tf.data.Options()
        options.threading.private_threadpool_size = args.threads
        options.threading.max_intra_op_parallelism = 1
        return images.with_options(options).as_numpy_iterator()

    return make_batches


if __name__ == "__main__":
    loading.main(
        loader(antialias=True),
        antialiased=True,
        about={
            "rrc": "decodes the crop only, antialiased bilinear in float; threads",
            "val": "full decode, antialiased bilinear in float; threads",
            "small": "threads",
        },
        versions={"TensorFlow": tf.__version__},
    )

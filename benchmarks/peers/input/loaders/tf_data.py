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


def loader(antialias):
    def make_batches(args):
        tf.config.threading.set_inter_op_parallelism_threads(args.threads)
        tf.config.threading.set_intra_op_parallelism_threads(1)

        def load(path):
            encoded = tf.io.read_file(path)
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
            small = tf.image.resize(crop, [args.size, args.size], antialias=antialias)
            small = tf.image.random_flip_left_right(small)
            return tf.cast(tf.clip_by_value(tf.round(small), 0.0, 255.0), tf.uint8)

        pictures = tf.data.Dataset.from_tensor_slices(args.files).shuffle(len(args.files)).repeat()
        pictures = pictures.map(load, num_parallel_calls=args.threads, deterministic=False)
        pictures = pictures.batch(args.batch, drop_remainder=True).prefetch(2)
        options = tf.data.Options()
        options.threading.private_threadpool_size = args.threads
        options.threading.max_intra_op_parallelism = 1
        return pictures.with_options(options).as_numpy_iterator()

    return make_batches


if __name__ == "__main__":
    loading.main(
        loader(antialias=True),
        antialiased=True,
        about="decodes the crop only, antialiased bilinear in float; threads",
        versions={"TensorFlow": tf.__version__},
    )

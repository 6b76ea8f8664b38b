# /// script
# dependencies = ["onnxruntime==1.32.0", "numpy==2.4.6", "pillow==13.0.0", "opencv-python-headless==5.0.0.93"]
# [tool.dlpipe]
# venv = "onnxruntime"
# ///
"""ONNX Runtime's CPU provider, all graph optimisations."""

import pathlib
import sys

import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import inference  # noqa: E402


def make_step(args):
    if args.dtype != "f32":
        sys.exit("ONNX Runtime has no bf16 on the CPU")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(str(args.model), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})


if __name__ == "__main__":
    inference.main(make_step, {"onnxruntime": onnxruntime.__version__})

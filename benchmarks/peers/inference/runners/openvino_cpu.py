# /// script
# dependencies = ["openvino==2026.4.0", "numpy==2.4.6", "pillow==13.0.0", "opencv-python-headless==5.0.0.93"]
# [tool.dlpipe]
# venv = "openvino"
# ///
"""OpenVINO's CPU plugin, compiled for the batch; bf16 by its precision hint."""

import pathlib
import sys

import openvino

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import inference  # noqa: E402


def make_step(args):
    core = openvino.Core()
    model = core.read_model(args.model)
    model.reshape([args.batch, 3, 224, 224])
    compiled = core.compile_model(
        model,
        "CPU",
        {
            "INFERENCE_NUM_THREADS": args.threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": args.dtype,
        },
    )
    request = compiled.create_infer_request()
    return lambda x: request.infer({0: x})


if __name__ == "__main__":
    inference.main(make_step, {"openvino": openvino.__version__})

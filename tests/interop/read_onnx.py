"""Every model of the table as ONNX: ONNX's checker passes it, and ONNX Runtime answers what dlpipe answers.

    read_onnx.py interop_make_onnx
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime

# Sums of thousands of products in another order, through up to 200 layers: a share of the largest logit.
TOLERANCE = 1e-4


def check(path, x, wanted):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    if {entry.key: entry.value for entry in model.metadata_props}.get("about") != "a test of dlpipe's":
        return "its metadata is lost"
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (name,) = [value.name for value in session.get_inputs()]
    (answer,) = session.run(None, {name: x})
    if answer.shape != wanted.shape:
        return f"shape {answer.shape}, expected {wanted.shape}"
    difference = numpy.abs(answer - wanted).max() / numpy.abs(wanted).max()
    print(f"{path.name}: {difference:.1e} of the largest logit")
    if not difference < TOLERANCE:
        return f"differs by {difference:.1e} of the largest logit"
    one = session.run(None, {name: x[:1]})[0]
    if one.shape[0] * x.shape[0] != wanted.shape[0]:
        return f"a batch of one gives {one.shape}"
    return None


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([sys.argv[1], str(folder)], check=True)
        inputs = sorted(folder.glob("*.x.npy"))
        if not inputs:
            return "no models were written"
        failures = []
        for path in inputs:
            model = path.name.removesuffix(".x.npy")
            x, wanted = numpy.load(path), numpy.load(folder / f"{model}.y.npy")
            for kind in ("", ".optimized"):
                problem = check(folder / f"{model}{kind}.onnx", x, wanted)
                if problem:
                    failures.append(f"{model}{kind}: {problem}")
        return "\n".join(failures)


if __name__ == "__main__":
    sys.exit(main() or 0)

"""Networks of torchvision and timm as `dlpipe.capture` takes them: PyTorch judges logits, gradients and ten steps of SGD.

    captured_models.py [--only PATTERN] [--ops] [--steps N] [--json FILE]

The judge is PyTorch in f64: its own f32 gradients of batch norms are up to 0.3 % off. Weights are generated. Dropout and stochastic depth have
probability 0, since the two draw other numbers. A network whose gradients or losses differ is judged again with SiLU in place of its relus, at a
tenth of the tolerance: rounding puts a number on the other side of a relu's kink, and that changes gradients by percents.
--ops lists ATen's ops of each network and those that dlpipe has no equal for, and captures nothing. benchmarks/captured_steps.py times steps.
Each network runs in a process of its own. The exit code is 1 where a network differs.
"""
import argparse
import collections
import copy
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

# Name: image size. torchvision's, one or two of each family that it has for classification.
TORCHVISION = {
    "alexnet": 96, "convnext_tiny": 96, "densenet121": 96, "efficientnet_b0": 96, "efficientnet_v2_s": 96, "googlenet": 96,
    "inception_v3": 160, "maxvit_t": 224, "mnasnet0_5": 96, "mobilenet_v2": 96, "mobilenet_v3_large": 96, "mobilenet_v3_small": 96,
    "regnet_x_400mf": 96, "regnet_y_400mf": 96, "resnet18": 96, "resnet50": 96, "resnext50_32x4d": 96, "shufflenet_v2_x0_5": 96,
    "squeezenet1_1": 96, "swin_t": 96, "swin_v2_t": 96, "vgg11": 64, "vgg11_bn": 64, "vit_b_32": 224, "wide_resnet50_2": 96,
}  # fmt: skip
# A class for each pixel.
SEGMENTATION = {"deeplabv3_mobilenet_v3_large": 96, "deeplabv3_resnet50": 96, "fcn_resnet50": 96, "lraspp_mobilenet_v3_large": 96}
# Rows of numbers for each anchor, which tests/python/test_detection.py judges as boxes and by torchvision's losses.
DETECTION = {
    "fcos_resnet50_fpn": 96, "retinanet_resnet50_fpn": 96, "retinanet_resnet50_fpn_v2": 96, "ssdlite320_mobilenet_v3_large": 320,
}  # fmt: skip
TIMM = {
    "beit_base_patch16_224": 224, "cait_xxs24_224": 224, "coat_lite_tiny": 224, "convmixer_768_32": 64, "convnext_atto": 96,
    "convnextv2_atto": 96, "crossvit_tiny_240": 240, "cspdarknet53": 96, "cspresnet50": 96, "deit3_small_patch16_224": 224,
    "deit_tiny_patch16_224": 224, "densenet121": 96, "dla34": 96, "dm_nfnet_f0": 96, "dpn48b": 96, "eca_resnet33ts": 96,
    "edgenext_xx_small": 96, "efficientformer_l1": 224, "efficientformerv2_s0": 224, "efficientnet_b0": 96, "efficientvit_b0": 96,
    "fastvit_t8": 96, "fbnetc_100": 96, "focalnet_tiny_srf": 96, "gernet_s": 96, "ghostnet_050": 96, "hardcorenas_a": 96, "hgnetv2_b0": 96,
    "hrnet_w18_small": 96, "inception_next_tiny": 96, "lcnet_050": 96, "levit_128s": 224, "maxvit_nano_rw_256": 256, "mixer_s32_224": 224,
    "mobilenetv3_small_050": 96, "mobilenetv4_conv_small": 96, "mobileone_s0": 96, "mobilevit_xxs": 96, "mobilevitv2_050": 96,
    "nest_tiny": 224, "nf_resnet50": 96, "pit_ti_224": 224, "poolformer_s12": 96, "pvt_v2_b0": 96, "regnety_002": 96, "repghostnet_050": 96,
    "repvgg_a0": 96, "repvit_m0_9": 96, "res2net50_26w_4s": 96, "resmlp_12_224": 224, "resnest14d": 96, "resnet18": 96, "resnetv2_50": 96,
    "rexnet_100": 96, "selecsls42": 96, "seresnet18": 96, "skresnet18": 96, "swin_tiny_patch4_window7_224": 224,
    "swinv2_tiny_window8_256": 256, "tf_efficientnetv2_b0": 96, "tiny_vit_5m_224": 224, "tinynet_e": 96, "tresnet_m": 96,
    "twins_svt_small": 224, "vgg11_bn": 64, "visformer_tiny": 224, "vit_tiny_patch16_224": 224, "volo_d1_224": 224, "xception41": 96,
    "xcit_nano_12_p16_224": 224,
}  # fmt: skip
BATCH, CLASSES = 4, 10
# What a step moves the weights by at most, of all of them together: large networks with drawn weights have gradients of 1000.
STEP = 0.02
# Of the logits, a share of the largest; of the losses of ten steps, a share of each.
LOGITS, LOSSES = 1e-4, 3e-2
# Of the gradients of each parameter the share ||g - g64|| / ||g64||. A number that f32 puts on the other side of a relu's kink than f64
# does changes the gradients of a few layers by percents, in PyTorch's f32 as well; so the median and the largest differ, and the losses of ten steps do.
# Ten steps magnify every rounding: where PyTorch's own f32 losses are further off than LOSSES, dlpipe's may be as far.
MEDIAN, LARGEST = 1e-2, 0.1


def build(library, name, size):
    import torch

    torch.manual_seed(20261130)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if library == "torchvision":
            import torchvision

            options = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
            options |= {"weights_backbone": None} if name in SEGMENTATION | DETECTION else {}
            model = torchvision.models.get_model(name, weights=None, num_classes=CLASSES, **options)
        else:
            import timm

            model = timm.create_model(name, pretrained=False, num_classes=CLASSES)
    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = 0.0
        for attribute in ("drop_prob", "attn_drop_rate", "dropout"):
            if isinstance(getattr(module, attribute, None), float):
                setattr(module, attribute, 0.0)
        if type(module).__name__ == "StochasticDepth":
            module.p = 0.0
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for key, tensor in model.state_dict(keep_vars=True).items():
            if not tensor.is_floating_point():
                continue
            if key.endswith("running_var"):
                tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
            elif tensor.dim() <= 1 or key.endswith(("gamma", "gamma_1", "gamma_2")):  # zeros would hide what is behind them
                tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
    return model, torch.randn(BATCH, 3, size, size, generator=generator)


def network(model):
    """Of a detector its backbone and head, which share the detector's parameters."""
    from dlpipe import torch_detection

    return torch_detection.Rows(model) if torch_detection.is_detector(model) else model


def rows(answer):
    """Logits [rows, classes], of segmentation in the order of dlpipe's pixels, of detectors the numbers of each anchor."""
    if isinstance(answer, dict):
        answer = answer["out"].permute(0, 2, 3, 1)
    return answer.reshape(-1, answer.shape[-1])


def share(a, b):
    import numpy

    a, b = numpy.asarray(a, numpy.float64), numpy.asarray(b, numpy.float64)
    if a.shape != b.shape or not numpy.isfinite(a).all():
        return float("inf")
    return float(numpy.abs(a - b).max() / max(numpy.abs(b).max(), 1e-6)) if a.size else 0.0


def list_ops(model, x):
    from dlpipe import torch_capture

    model = network(model).train()
    programs = torch_capture._programs(model, x)
    counts = collections.Counter(str(node.target).removeprefix("aten.") for node in programs[0].graph_module.graph.nodes
                                 if node.op == "call_function")  # fmt: skip
    translation = torch_capture._Translation(programs, model)
    try:
        translation.run()
    except Exception as error:
        return {"ops": counts, "refused": translation.refused or str(error)}
    return {"ops": counts, "refused": {}}


def without_kinks(module):
    """SiLU in place of relus, in the model itself and in what its code calls."""
    import torch

    torch.nn.functional.relu = lambda x, inplace=False: torch.nn.functional.silu(x)
    for name, child in module.named_children():
        if isinstance(child, (torch.nn.ReLU, torch.nn.ReLU6)):
            setattr(module, name, torch.nn.SiLU())
        else:
            without_kinks(child)
    return module


def judge(model, x, steps, tolerance=1.0):
    import numpy
    import torch

    import dlpipe
    from dlpipe import _dlpipe

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.dlm")
        begin = time.perf_counter()
        dlpipe.capture(model, x, path)
        result = {"capture_s": round(time.perf_counter() - begin, 1)}
        ours = _dlpipe.CapturedModel(os.fsencode(path))
    exact = copy.deepcopy(model).double()
    with torch.no_grad():
        expected = rows(network(exact.eval())(x.double()))
        result["eval"] = share(rows(ours.forward(x.numpy(), False)), expected)
    labels = torch.arange(len(expected)) % CLASSES if len(expected) == BATCH else torch.randint(CLASSES, (len(expected),))
    exact.train()
    model.train()
    losses, lr = [], 0.0
    for step in range(steps):
        exact.zero_grad()
        model.zero_grad()
        loss = torch.nn.functional.cross_entropy(rows(network(exact)(x.double())), labels)
        loss.backward()
        own = torch.nn.functional.cross_entropy(rows(network(model)(x)), labels)
        own.backward()
        if step == 0:
            lr = min(0.01, STEP / float(sum(one.grad.norm() ** 2 for one in exact.parameters() if one.grad is not None)) ** 0.5)
        losses.append((loss.item(), ours.step(x.numpy(), labels.numpy(), lr), own.item()))
        if step == 0:
            gradients = ours.gradients()
            theirs = {name: one.grad for name, one in exact.named_parameters() if one.grad is not None}
            least = 1e-4 * max(float(one.norm()) for one in theirs.values())
            result["missing"] = sorted(name for name, one in theirs.items() if name not in gradients and float(one.norm()) > 0)
            differences = {name: float(numpy.linalg.norm(gradients[name] - one.numpy())) / max(float(one.norm()), least)
                           for name, one in theirs.items() if name in gradients}  # fmt: skip
            result["gradients"] = float(numpy.median(list(differences.values())))
            result["worst"] = max(differences.values())
            # How far PyTorch's own f32 is from f64: networks whose norms see few values magnify every rounding.
            result["pytorch"] = float(numpy.median([float((one.grad.double() - theirs[name]).norm()) / max(float(theirs[name].norm()), least)
                                                    for name, one in model.named_parameters() if name in theirs]))  # fmt: skip
        with torch.no_grad():
            for one in [*exact.parameters(), *model.parameters()]:
                if one.grad is not None:
                    one -= lr * one.grad
    result["losses"] = max(abs(a - b) / max(abs(a), 1e-3) for a, b, _ in losses)
    result["pytorch_losses"] = max(abs(a - c) / max(abs(a), 1e-3) for a, _, c in losses)
    state = {name: torch.from_numpy(numpy.array(one)) for name, one in ours.state().items() if not name.startswith("literal/")}
    # Tied weights once, under the first of their names, as PyTorch lists them.
    once = {name for name, _ in [*model.named_parameters(), *model.named_buffers()]}
    result["keys"] = sorted(set(state) ^ (once & set(model.state_dict())))
    times_off = max(tolerance, 3 * result["pytorch"] / MEDIAN)
    losses_off = max(times_off, result["pytorch_losses"] / LOSSES)
    result["whole"] = bool(result["eval"] < LOGITS and not result["missing"] and not result["keys"])
    result["equal"] = bool(result["whole"] and result["gradients"] < MEDIAN * times_off and result["worst"] < LARGEST * times_off
                           and result["losses"] < LOSSES * losses_off)  # fmt: skip
    return result


def run_one(given):
    library, name = given.one.split("/")
    size = (TORCHVISION | SEGMENTATION | DETECTION if library == "torchvision" else TIMM)[name]
    model, x = build(library, name, size)
    try:
        result = list_ops(model, x) if given.ops else judge(model, x, given.steps)
        if not given.ops and result["whole"] and not result["equal"]:
            model, x = build(library, name, size)
            result["smooth"] = judge(without_kinks(model), x, given.steps, 0.1)
            result["equal"] = result["smooth"]["equal"]
    except Exception as error:
        result = {"equal": False, "error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="of torchvision/NAME and timm/NAME")
    parser.add_argument("--ops", action="store_true")
    parser.add_argument("--steps", type=int, default=10, help="of SGD; most of the time goes into PyTorch's f64 convolutions")
    parser.add_argument("--json", help="a file for all results")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        return run_one(given)
    names = [f"torchvision/{name}" for name in TORCHVISION | SEGMENTATION | DETECTION] + [f"timm/{name}" for name in TIMM]
    all_ = {}
    for name in (one for one in names if fnmatch.fnmatch(one, given.only)):
        options = ["--steps", str(given.steps), *(["--ops"] if given.ops else [])]
        done = subprocess.run([sys.executable, __file__, "--one", name, *options], capture_output=True, text=True)
        lines = done.stdout.strip().splitlines()
        result = json.loads(lines[-1]) if done.returncode == 0 and lines else {"equal": False, "error": done.stderr[-500:]}
        all_[name] = result
        shown = {key: f"{value:.1e}" if isinstance(value, float) and key not in ("capture_s",) else value
                 for key, value in result.items() if key != "ops" and value not in ([], {})}  # fmt: skip
        print(name, shown, flush=True)
        if given.json:
            with open(given.json, "w") as file:
                json.dump(all_, file, indent=1)
    if given.ops:
        table = collections.defaultdict(list)
        for name, result in all_.items():
            for op in result.get("ops", {}):
                table[op].append(name)
        for op, users in sorted(table.items(), key=lambda one: -len(one[1])):
            print(f"{op:45} {len(users):3} {users[0]}")
        return 0
    equal = sum(bool(one.get("equal")) for one in all_.values())
    print(f"{equal} of {len(all_)} networks are equal")
    return int(equal != len(all_))


if __name__ == "__main__":
    sys.exit(main())

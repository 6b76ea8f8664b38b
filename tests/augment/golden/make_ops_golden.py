"""Writes ops/NAME.golden: what the library that defined an op makes of images that the tests can make too.

    python make_ops_golden.py [op ...]        (needs scripts/requirements-golden.txt; of a named op its own library)

A case is a line with the expression, everything that dlpipe would draw being fixed, a line `channels width height
out_width out_height` with the values that the op is to have drawn where an expression can't fix them, the result's bytes (rows of interleaved channels) and a newline. The same numbers go into the
library's own function, named beside each op.
"""
import io
import os
import sys

import numpy
import PIL
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from golden_image import make_image

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = {}  # op: [(expression, image, result)]


def case(expression, function, channels=3, width=45, height=33, values=()):
    """One expression, and the function of a PIL image that gives what the library makes of it."""
    CASES.setdefault(expression.split("(")[0], []).append((expression, function, (channels, width, height), values))


def enhanced(kind, factor):
    return lambda image: kind(image).enhance(factor)


def torchvision_pil(name, *args, **kwargs):
    """torchvision.transforms.v2.functional, applied to the PIL image."""
    def run(image):
        from torchvision.transforms.v2 import functional
        return getattr(functional, name)(image, *args, **kwargs)
    return run


def torchvision_tensor(name, *args, **kwargs):
    """torchvision.transforms.v2.functional, applied to the u8 tensor."""
    def run(image):
        from torchvision.transforms.v2 import functional
        tensor = functional.pil_to_tensor(image)
        result = getattr(functional, name)(tensor, *args, **kwargs)
        return result.permute(1, 2, 0).numpy()
    return run


def photometric():
    for factor in (0, 0.3, 0.999, 1.5, 4):
        case(f"brightness({factor}..{factor})", enhanced(ImageEnhance.Brightness, factor))
        case(f"contrast({factor}..{factor})", enhanced(ImageEnhance.Contrast, factor))
        case(f"saturation({factor}..{factor})", enhanced(ImageEnhance.Color, factor))
        case(f"sharpness({factor}..{factor})", enhanced(ImageEnhance.Sharpness, factor))
    case("contrast(0.5..0.5)", enhanced(ImageEnhance.Contrast, 0.5), channels=1)
    case("sharpness(2..2)", enhanced(ImageEnhance.Sharpness, 2), width=5, height=3)
    for shift in (-0.5, -0.13, 0.07, 0.5):
        case(f"hue({shift}..{shift})", torchvision_pil("adjust_hue", shift), width=90, height=70)
    case("grayscale", lambda image: image.convert("L").convert("RGB"))
    case("invert", ImageOps.invert)
    for threshold in (0, 100, 128, 256):
        case(f"solarize({threshold})", lambda image, t=threshold: ImageOps.solarize(image, t))
    for bits in (1, 4, 8):
        case(f"posterize({bits})", lambda image, b=bits: ImageOps.posterize(image, b))
    case("posterize(0)", lambda image: image.point([0] * 256 * 3))
    for size in ((45, 33), (90, 70), (7, 3)):
        case("equalize", ImageOps.equalize, 3, *size)
        case("autocontrast", ImageOps.autocontrast, 3, *size)
    for gamma, gain in ((0.5, 1), (1, 1), (2.2, 1), (1.3, 1.5)):
        case(f"gamma({gamma},{gain})", torchvision_pil("adjust_gamma", gamma, gain))
    for size, sigma in ((3, 0.5), (5, 1.1), (23, 2.0), (9, 10.0)):
        case(f"gaussian_blur({size},{sigma})", torchvision_tensor("gaussian_blur", [size, size], [sigma, sigma]))


def opencv_clahe(clip, tiles):
    """Albumentations' CLAHE: of L in Lab."""
    import cv2

    def run(image):
        lab = cv2.cvtColor(numpy.asarray(image), cv2.COLOR_RGB2LAB)
        lab[:, :, 0] = cv2.createCLAHE(clip, tiles).apply(lab[:, :, 0])
        return cv2.cvtColor(lab, cv2.COLOR_LAB2RGB)
    return run


def opencv_unsharp(sigma, amount):
    """Albumentations' UnsharpMask without a threshold: OpenCV's blur, three sigma far, and the difference added."""
    import cv2

    def run(image):
        values = numpy.asarray(image)
        side = 2 * int(numpy.ceil(3 * sigma)) + 1
        return cv2.addWeighted(values, 1 + amount, cv2.GaussianBlur(values, (side, side), sigma), -amount, 0)
    return run


def through_jpeg(quality):
    """Saved by Pillow, chroma 4:2:0 as is its default, and read again."""
    def run(image):
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality)
        return Image.open(file).convert(image.mode)
    return run


def compressions():
    for quality in (1, 30, 75, 100):
        case(f"jpeg({quality})", through_jpeg(quality), width=90, height=70)
    for width, height in ((45, 33), (16, 32), (17, 1), (4, 9), (5, 2), (1, 1)):
        case("jpeg(50)", through_jpeg(50), width=width, height=height)
    case("jpeg(20)", through_jpeg(20), channels=1)


def filters():
    import cv2
    array = numpy.asarray
    for size in (3, 7):
        case(f"box_blur({size})", lambda image, s=size: cv2.blur(array(image), (s, s)))
    for size in (3, 5):
        case(f"median_blur({size})", lambda image, s=size: cv2.medianBlur(array(image), s))
    for sigma, amount in ((0.7, 0.3), (1.5, 2)):
        case(f"unsharp({sigma},{amount})", opencv_unsharp(sigma, amount))
    for alpha, strength in ((0.5, 0.7), (1, 0.2)):
        kernel = (1 - alpha) * numpy.pad([[1.0]], 1) + alpha * numpy.array(  # Albumentations' Emboss
            [[-1 - strength, -strength, 0], [-strength, 1, strength], [0, strength, 1 + strength]])
        case(f"emboss({alpha},{strength})", lambda image, k=kernel: cv2.filter2D(array(image), -1, k))
    for size, angle in ((7, 0), (5, 30), (9, 120)):
        kernel = numpy.zeros((size, size))
        for i in range(-(size // 2), size // 2 + 1):
            radians = numpy.deg2rad(angle)
            kernel[round(size // 2 - i * numpy.sin(radians)), round(size // 2 + i * numpy.cos(radians))] += 1 / size
        case(f"motion_blur({size},{angle})", lambda image, k=kernel: cv2.filter2D(array(image), -1, k))
    for clip, tiles, width, height in ((2, (8, 8), 45, 33), (1.5, (4, 3), 64, 48), (40, (8, 8), 90, 70), (4, (8, 8), 7, 5),
                                       (4, (8, 8), 64, 45)):
        case(f"clahe({clip},{tiles[1]}x{tiles[0]})", opencv_clahe(clip, tiles), width=width, height=height)
    case("clahe(3)", lambda image: cv2.createCLAHE(3, (8, 8)).apply(array(image)), channels=1)
    for scale, name, kind in ((0.25, "nearest", Image.Resampling.NEAREST), (0.5, "bilinear", Image.Resampling.BILINEAR)):
        case(f"downscale({scale},{name})", lambda image, s=scale, k=kind: image.resize(
            (int(image.width * s), int(image.height * s)), k).resize(image.size, k))


def resizes():
    filters = {"nearest": Image.Resampling.NEAREST, "area": Image.Resampling.BOX,
               "bicubic": Image.Resampling.BICUBIC, "lanczos": Image.Resampling.LANCZOS}
    for name, kind in filters.items():
        for width, height in ((20, 15), (70, 50), (45, 10), (12, 33), (1, 1)):
            case(f"resize({height}x{width},{name})", lambda image, s=(width, height), k=kind: image.resize(s, k))
        case(f"resize(17x19,{name})", lambda image, k=kind: image.resize((19, 17), k), channels=1)
    for mode, arguments in (("constant", {"fill": 7}), ("edge", {}), ("reflect", {})):
        case(f"pad(3:1:5:9,{mode},7)", torchvision_pil("pad", [3, 1, 5, 9], padding_mode=mode, **arguments))
    case("pad(4)", torchvision_pil("pad", [4]))
    case("pad_to(40x60,fill=9)", torchvision_pil("pad", [7, 3, 8, 4], fill=9))


def orientations():
    case("vflip(1)", lambda image: ImageOps.flip(image))
    case("transpose(1)", lambda image: image.transpose(Image.Transpose.TRANSPOSE))
    for times in (1, 2, 3):
        case(f"rot90({times})", lambda image, k=times: numpy.rot90(numpy.asarray(image), k))


def warps():
    modes = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR}
    for name, mode in modes.items():
        for angle, fill in ((30, 0), (-7.5, 9), (90, 0), (179, 200)):
            case(f"rotate({angle}..{angle},{name},{fill})",
                 lambda image, a=angle, f=fill, m=mode: image.rotate(a, resample=m, fillcolor=(f, f, f)))
        case(f"rotate(12..12,{name})", lambda image, m=mode: image.rotate(12, resample=m), channels=1)
        for x, y in ((17, 0), (0, -25), (10, 5)):
            case(f"shear({x}..{x},{y}..{y},middle,{name})", pil_affine(0, [0, 0], 1, [x, y], mode))
        case(f"translate(0.2..0.2,-0.1..-0.1,interpolation={name})", pil_affine(0, [9, -3], 1, [0, 0], mode))
        case(f"affine(15..15,0.2..0.2,-0.1..-0.1,1.2,5..5,-3..-3,{name},fill=1:2:3)",
             pil_affine(15, [9, -3], 1.2, [5, -3], mode, (1, 2, 3)))
        case(f"affine(0..0,0..0,0..0,0.5,{name})".replace(f",{name}", f",interpolation={name}"),
             pil_affine(0, [0, 0], 0.5, [0, 0], mode))
        # The second puts the lower border on whole coordinates, where the nearest pixel hangs on the last bit.
        for moves in ((3, 2, 5, 7, 1, 4, 9, 1), (1, 2, 11, 3, 2, 1, 5, 8))[:1 if name == "nearest" else 2]:
            case(f"perspective(0.5,{name},7,1)", perspective(moves, mode, 7), values=moves)


# torchvision's own transform of one op of a policy's space at one magnitude, on the PIL image.
def policy_op(name, magnitude):
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import AutoAugment
    transform = AutoAugment()
    return lambda image: transform._apply_image_or_video_transform(image, name, magnitude, InterpolationMode.NEAREST, {})


def policies():
    """Everything that a policy can give: each op of RandAugment at three magnitudes, some of TrivialAugmentWide's, each
    pair of AutoAugment's with all signs and either op left out."""
    from torchvision.transforms.autoaugment import AutoAugmentPolicy
    from torchvision.transforms.v2 import AutoAugment, RandAugment, TrivialAugmentWide
    width, height = 20, 16

    def ops(kind, name, bin, bins):
        function, is_signed = kind._AUGMENTATION_SPACE[name]
        magnitudes = function(bins, height, width)
        magnitude = float(magnitudes[bin]) if magnitudes is not None else 0.0
        return [policy_op(name, sign * magnitude) for sign in ((1, -1) if is_signed and magnitude else (1,))]

    def add(policy, expression, function):
        CASES.setdefault(policy, []).append((expression, function, (3, width, height), ()))

    for name in RandAugment._AUGMENTATION_SPACE:
        for bin in (0, 9, 30):
            for function in ops(RandAugment, name, bin, 31):
                add("randaugment", f"randaugment(1,{bin})", function)
    for name in TrivialAugmentWide._AUGMENTATION_SPACE:
        for bin in (0, 17, 30):
            for function in ops(TrivialAugmentWide, name, bin, 31):
                add("trivial_augment", "trivial_augment", function)
    width, height = 12, 9  # there are many
    for policy in AutoAugmentPolicy:
        for pair in AutoAugment()._get_policies(policy):
            parts = []
            for name, probability, bin in pair:
                part = ops(AutoAugment, name, bin, 10) if probability > 0 else []
                parts.append(part + ([lambda image: image] if probability < 1 else []))
            for first in parts[0]:
                for second in parts[1]:
                    add("auto_augment", f"auto_augment({policy.value})",
                        lambda image, f=first, s=second: s(f(image)))


def pil_affine(angle, translate, scale, shear, mode, fill=(0, 0, 0)):
    """torchvision's affine of a PIL image."""
    from torchvision.transforms.functional import _get_inverse_affine_matrix as inverse

    def run(image):
        matrix = inverse([image.width * 0.5, image.height * 0.5], angle, translate, scale, shear)
        return image.transform(image.size, Image.Transform.AFFINE, matrix, mode, fillcolor=fill)
    return run


def perspective(moves, mode, fill):
    def coefficients(start, end):  # torchvision's equations in f64; it rounds the result to f32, which moves single pixels
        rows, right_side = [], []
        for (x, y), (u, v) in zip(end, start):
            rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
            right_side += [u, v]
        return numpy.linalg.solve(numpy.array(rows, float), numpy.array(right_side, float)).tolist()

    def run(image):
        right, bottom = image.width - 1, image.height - 1
        start = [[0, 0], [right, 0], [right, bottom], [0, bottom]]
        end = [[moves[0], moves[1]], [right - moves[2], moves[3]], [right - moves[4], bottom - moves[5]],
               [moves[6], bottom - moves[7]]]
        return image.transform(image.size, Image.Transform.PERSPECTIVE, coefficients(start, end), mode,
                               fillcolor=(fill, fill, fill))
    return run


def write(op, cases):
    golden = b""
    for expression, function, (channels, width, height), values in cases:
        result = numpy.ascontiguousarray(numpy.asarray(function(make_image(channels, width, height))))
        result = result.reshape(result.shape[0], result.shape[1], -1)
        assert result.dtype == numpy.uint8 and result.shape[2] == channels, (expression, result.shape)
        numbers = [channels, width, height, result.shape[1], result.shape[0], *values]
        golden += f"{expression}\n{' '.join(map(str, numbers))}\n".encode() + result.tobytes() + b"\n"
    with open(os.path.join(HERE, "ops", op + ".golden"), "wb") as file:
        file.write(golden)


def main():
    missing = []
    for add_cases in (photometric, compressions, filters, resizes, orientations, warps, policies):
        try:
            add_cases()
        except ModuleNotFoundError as error:  # another op's library
            missing.append(str(error))
    for op in sys.argv[1:] or CASES:
        if op not in CASES or (missing and not sys.argv[1:]):
            sys.exit(f"make_ops_golden: {'; '.join(missing) or 'no case of ' + op}")
        write(op, CASES[op])
        print(op, len(CASES[op]))


if __name__ == "__main__":
    main()

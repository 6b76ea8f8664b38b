"""Conversion rules. For each library a table of functions by class name, with the library's parameters in its order and its
defaults (...: without effect on pixels). A function returns the expression."""

from __future__ import annotations

import math
import re

from dlpipe.recipes.call import LIBRARIES, NoEqual, last_word, number_text, range_text

# torchvision


def _grayscale(t, num_output_channels=1):
    t.conversion.gives_channels(t, num_output_channels.number())
    return "grayscale"


def _rgb(t):
    t.conversion.gives_channels(t, 3)
    return ""


def _photometric(brightness=(0.875, 1.125), contrast=(0.5, 1.5), saturation=(0.5, 1.5), hue=(-0.05, 0.05), p=0.5):
    first = f"contrast({contrast}{p:p})"
    colour = f"saturation({saturation}{p:p}) hue({hue}{p:p})"
    return f"brightness({brightness}{p:p}) one_of({first} {colour} | {colour} {first}) channel_shuffle({p:one})"


def _gaussian_blur(t, kernel_size, sigma=(0.1, 2)):
    sides = kernel_size.numbers()
    if len(set(sides)) != 1:
        raise NoEqual("its kernel isn't square, but dlpipe's is (giving only sigma may be enough)")
    return f"gaussian_blur(size={number_text(sides[0])},sigma={sigma})"


def _erasing(t, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=...):
    if value.raw == "random":
        t.note("dlpipe's random values are uniform, the library's are drawn from a normal distribution")
        return f"random_erasing({scale},{ratio},mode=noise,p={p})"
    return f"random_erasing({scale},{ratio}{value:fill},p={p})"


def _augmix(t, severity=3, mixture_width=3, chain_depth=-1, alpha=1, all_ops=True, interpolation="bilinear", fill=None):
    depth = f",{chain_depth}" if chain_depth.number() > 0 else ""
    if all_ops.raw is False:
        t.note("dlpipe draws from all ops; torchvision excludes the colour and sharpness ops")
    return f"augmix({severity},{mixture_width}{depth},alpha={alpha}{interpolation:warp}{fill:fill})"


def _normalize(t, mean, std, inplace=...):
    return t.conversion.normalized(mean, std)


def _of_weights(t, *, crop_size, resize_size=256, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), interpolation="bilinear",
                antialias=True):  # fmt: skip
    """The transform of weights.transforms()."""
    t.conversion.normalized(mean, std)
    t.conversion.is_tensor = True
    return f"resize({resize_size:list}{interpolation:filter}) center_crop({crop_size:list})"


def _of_segmentation_weights(t, *, resize_size=None, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), interpolation="bilinear",
                             antialias=True):  # fmt: skip
    t.conversion.normalized(mean, std)
    t.conversion.is_tensor = True
    return f"resize({resize_size:list}{interpolation:filter})" if resize_size.given else ""


def _center_crop(t, size):
    """After Normalize a smaller image is padded with 0, the colour of the mean."""
    colour = ":".join(map(number_text, t.conversion.pixels([0]))) if t.conversion.mean else ""
    return f"pad_to({size:size},fill={colour}) center_crop({size:size})" if colour.strip("0:") else f"center_crop({size:size})"


def _views(views):
    def crops(t, size, vertical_flip=False):
        t.note(f"eval --tta {views} makes the crops from the middle square of the image")  # which is 7/8 of it
        return f"center_crop({math.ceil(size.numbers()[0] * 8 / 7)})"

    return crops


def _iou_crop(min_scale=0.3, max_scale=1, min_aspect_ratio=0.5, max_aspect_ratio=2, sampler_options=None, trials=40):
    overlaps = f",overlaps={sampler_options:list}" if sampler_options.given else ""
    tries = "" if trials.number() == 40 else f",trials={trials}"
    return (f"ssd_crop({range_text(min_scale.number(), max_scale.number())},"
            f"{range_text(min_aspect_ratio.number(), max_aspect_ratio.number())}{overlaps}{tries})")  # fmt: skip


def _random_crop(t, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
    if not padding.given:
        return f"random_crop({size:size})"
    mode, colour, sides = padding_mode.word(), f"{fill:fill}", padding.numbers()
    if len(set(sides)) == 1 and not colour and mode in ("constant", "reflect"):
        return f"pad_crop({size:size},{number_text(sides[0])}{',reflect' if mode == 'reflect' else ''})"
    return f"pad({padding:list},{mode}{colour}) random_crop({size:size})"


def _shortest_size(t, min_size, max_size=None, interpolation="bilinear", antialias=True):
    sizes = [f"resize({number_text(one)}{interpolation:filter})" for one in min_size.numbers()]
    return sizes[0] if len(sizes) == 1 else f"one_of({' | '.join(sizes)})"


def _about_middle(center):
    if center.given:
        center.cannot("the middle, about which dlpipe rotates")


def _rotation(degrees, interpolation="nearest", expand=False, center=None, fill=0):
    _about_middle(center)
    return f"rotate({degrees}{interpolation:warp}{fill:fill})"


def _random_affine(t, degrees, translate=None, scale=None, shear=None, interpolation="nearest", fill=0, center=None):
    _about_middle(center)
    if translate.given and not (isinstance(translate.raw, (list, tuple)) and len(translate.raw) == 2):
        translate.cannot("two numbers, a share of the width and one of the height")
    moves = translate.list().replace(":", ",") if translate.given else "0,0"
    lean = "0"
    if shear.given:
        values = shear.numbers()
        lean = f"{shear}" if len(values) != 4 else f"{range_text(*values[:2])},{range_text(*values[2:])}"
    return f"affine({degrees},{moves},{scale if scale.given else 1},{lean}{interpolation:warp}{fill:fill})"


def _elastic(t, alpha, sigma, is_normal, share, rest):
    """Both libraries smooth one random move per pixel with a Gaussian of width sigma. dlpipe uses a cubic B-spline. It has the same
    width if its spacing is sqrt(3) sigma (its variance is a third of its spacing squared). Pixels move as far on average if its alpha
    is the library's times 0.589 / sigma: the smoothing keeps 1 / (2 sqrt(pi) sigma) of the noise's deviation, and the spline keeps
    151/315 of its control points' deviation. Albumentations first divides normal noise by its largest number, which leaves 1 / 2.6 of
    the deviation of uniform noise in an image of 224 x 224."""
    for one in (alpha, sigma):
        if len(set(one.numbers())) > 1:
            t.note(f"dlpipe uses the first {one.name} for both directions")
    width = max(sigma.numbers()[0], 0.5)
    far = alpha.numbers()[0] * share / (2.6 if is_normal else 1)
    t.note("dlpipe's elastic draws another kind of displacement field, with the same width and mean size; compare them with dlpipe preview")
    return f"elastic({number_text(round(far * 0.589 / width, 4))},{number_text(max(round(width * math.sqrt(3)), 2))}{rest})"


def _to_dtype(t, dtype="float32", scale=False):
    """From here on values are in 0..1, or in 0..255 again. `scale`: for images only."""
    kind = dtype.raw
    if isinstance(kind, dict):  # without an entry for images, they keep theirs
        kind = kind.get("Image", kind.get("others"))
    if kind is None:
        return ""
    kind = {"float": "float32", "half": "float16", "double": "float64"}.get(last_word(kind), last_word(kind))
    conversion, is_scaled = t.conversion, scale.raw is True or t.name == "ConvertImageDtype"
    if kind == "uint8":
        if conversion.normalize:
            t.note("it comes after Normalize, whose values dlpipe doesn't convert to bytes")
        elif not is_scaled and conversion.unit == 1:
            t.note("without scale=True values of 0..1 become 0 and 1; dlpipe's stay bytes of 0..255")
        conversion.unit, conversion.is_unscaled = 255, False
        return ""
    if kind != "float32":
        short = {"float16": "f16", "bfloat16": "bf16"}.get(kind)
        t.note(f"its values are {kind}, dlpipe's are float32" + (f"; leave it out and give dtype={short!r}" if short else ""))
    if is_scaled and not conversion.is_unscaled:
        conversion.unit = 1
    elif not is_scaled:
        conversion.is_unscaled = conversion.unit == 255
    return ""


def _is_unit(t, *, dtype=...):
    t.conversion.unit = 1
    return _is_tensor(t)


def _is_tensor(t):
    t.conversion.is_tensor = True
    return ""


def _to_float(t, max_value=255, *, p=1):
    if max_value.number() != 255:
        t.note(f"max_value={max_value}: dlpipe divides by 255")
    t.conversion.unit = 1
    return ""


def _is_bytes(t, *, mode=None):
    if t.conversion.normalize or t.conversion.is_unscaled:
        t.note("it multiplies by 255, and values outside of 0..1 wrap around; dlpipe's don't")
    t.conversion.unit, t.conversion.is_tensor, t.conversion.is_unscaled = 255, False, False
    mode.raw  # noqa: B018 (PIL's, which follows from the image)
    return ""


def _nothing(**_):
    """Transforms that dlpipe applies anyway, or that change no pixels."""
    return ""


def _solarize(t, threshold, p=0.5):
    return f"solarize({threshold.range(255 / t.conversion.unit)},{p})"


TORCHVISION = {
    "RandomHorizontalFlip": lambda p=0.5: f"hflip({p})",
    "RandomVerticalFlip": lambda p=0.5: f"vflip({p})",
    "RandomGrayscale": lambda p=0.1: f"grayscale({p})",
    "RandomInvert": lambda p=0.5: f"invert({p})",
    "RandomAutocontrast": lambda p=0.5: f"autocontrast({p})",
    "RandomEqualize": lambda p=0.5: f"equalize({p})",
    "RandomPosterize": lambda bits, p=0.5: f"posterize({bits},{p})",
    "RandomSolarize": _solarize,
    "RandomAdjustSharpness": lambda sharpness_factor, p=0.5: f"sharpness({range_text(*sharpness_factor.ends())},{p})",
    "RandomPhotometricDistort": _photometric,
    "RandomChannelPermutation": lambda: "channel_shuffle",
    "ColorJitter": lambda brightness=0, contrast=0, saturation=0, hue=0: f"color_jitter({brightness},{contrast},{saturation},{hue})",
    "Grayscale": _grayscale,
    "GaussianBlur": _gaussian_blur,
    "GaussianNoise": lambda mean=0, sigma=0.1, clip=True: f"gaussian_noise({sigma},{mean})",
    "JPEG": lambda quality: f"jpeg({quality})",
    "RandomErasing": _erasing,
    "RandAugment": lambda num_ops=2, magnitude=9, num_magnitude_bins=31, interpolation="nearest", fill=None: (
        f"randaugment({num_ops},{magnitude},{num_magnitude_bins}{interpolation:warp}{fill:fill})"),
    "TrivialAugmentWide": lambda num_magnitude_bins=31, interpolation="nearest", fill=None: (
        f"trivial_augment({num_magnitude_bins}{interpolation:warp}{fill:fill})"),
    "AutoAugment": lambda policy="imagenet", interpolation="nearest", fill=None: (
        f"auto_augment({policy:word}{interpolation:warp}{fill:fill})"),
    "AugMix": _augmix,
    "Normalize": _normalize,
    "RandomResizedCrop": lambda size, scale=(0.08, 1), ratio=("3/4", "4/3"), interpolation="bilinear", antialias=True: (
        f"rrc({size:size},{scale},{ratio}{interpolation:filter})"),
    "Resize": lambda size, interpolation="bilinear", max_size=None, antialias=True: f"resize({size:size}{interpolation:filter})",
    "CenterCrop": _center_crop,
    "RandomIoUCrop": _iou_crop,
    "ImageClassification": _of_weights,
    "SemanticSegmentation": _of_segmentation_weights,
    "ObjectDetection": _is_unit,
    "FiveCrop": _views("five_crop"),
    "TenCrop": _views("ten_crop"),
    "RandomCrop": _random_crop,
    "FixedSizeCrop": lambda size, fill=0, padding_mode="constant": f"pad_to({size:size}{fill:fill}) random_crop({size:size})",
    "RandomShortestSize": _shortest_size,
    "Pad": lambda padding, fill=0, padding_mode="constant": f"pad({padding:list},{padding_mode:word}{fill:fill})",
    "RandomRotation": _rotation,
    "RandomAffine": _random_affine,
    "RandomPerspective": lambda distortion_scale=0.5, p=0.5, interpolation="bilinear", fill=0: (
        f"perspective({distortion_scale}{interpolation:warp}{fill:fill},p={p})"),
    "ElasticTransform": lambda t, alpha=50, sigma=5, interpolation="bilinear", fill=0: (
        # alpha is a share of a grid from -1 to 1
        _elastic(t, alpha, sigma, False, 0.5, f"{interpolation:warp}{fill:fill}")),
    "SanitizeBoundingBoxes": lambda min_size=1, min_area=1, labels_getter=...: f"drop_boxes(0,{min_size},{min_area})",
    "RGB": _rgb,
    "ToTensor": _is_unit,
    "PILToTensor": _is_tensor,
    "ToImage": _is_tensor,
    "ToPILImage": _is_bytes,
    "ToDtype": _to_dtype,
    "ConvertImageDtype": _to_dtype,
    "Compose": lambda t, transforms: t.conversion.sequence(transforms),
    "RandomApply": lambda t, transforms, p=0.5: t.conversion.perhaps(t.conversion.sequence(transforms), p.number()),
    "RandomChoice": lambda t, transforms, p=None: t.conversion.one_of(transforms, weights=p),
    "RandomOrder": lambda t, transforms: t.conversion.in_any_order(transforms),
} | dict.fromkeys(("ToPureTensor", "ClampBoundingBoxes", "ClampBoundingBox", "ConvertBoundingBoxFormat",
                   "Identity"), _nothing)  # fmt: skip

# Albumentations


def _jitter(t, brightness=(0.8, 1.2), contrast=(0.8, 1.2), saturation=(0.8, 1.2), hue=(-0.5, 0.5), *, p=0.5):
    return f"color_jitter({brightness},{contrast},{saturation},{hue}{p:p})"


def _brightness(t, brightness_limit=(-0.2, 0.2), contrast_limit=(-0.2, 0.2), brightness_by_max=True, ensure_safe_range=False, *, p=0.5):
    t.note("dlpipe's brightness is a factor and its contrast is relative to the mean; Albumentations multiplies each value and adds a share "
           "of 255. With the defaults photos change by 12 of 255 on average in dlpipe, by 28 in Albumentations")  # fmt: skip
    return f"one_of(brightness({brightness_limit.range(add=1)}) contrast({contrast_limit.range(add=1)}){p:p})"


def _hue(t, hue_shift_limit=(-20, 20), sat_shift_limit=(-30, 30), val_shift_limit=(-20, 20), *, p=0.5):
    t.note("dlpipe multiplies saturation and value; Albumentations adds to them. With the defaults photos change by 8 of 255 on "
           "average in dlpipe, by 12 in Albumentations")  # fmt: skip
    return (f"one_of(hue({hue_shift_limit.range(1 / 180)}) saturation({sat_shift_limit.range(1 / 255, 1)}) "
            f"brightness({val_shift_limit.range(1 / 255, 1)}){p:p})")  # fmt: skip


def _solarize_range(t, threshold_range=0.5, *, threshold=None, p=0.5):
    return f"solarize({threshold if threshold.given else threshold_range.range(255)}{p:p})"  # 1.x: in steps of a pixel


def _is_second(t):
    """Whether the release is 2.x, which is assumed for programs."""
    return (t.conversion.version or (2,)) >= (2,)


def _fancy_pca(t, alpha=0.1, *, p=0.5):
    """Since 2.0 each pixel moves by its own distance from the image's mean, which changes photos a ninth as much for the same alpha."""
    t.note("dlpipe uses ImageNet's components and moves all pixels alike; Albumentations uses the image's own components for each pixel. "
           "Photos change about as much")  # fmt: skip
    return f"fancy_pca({number_text(round(alpha.number() * (0.11 if _is_second(t) else 1), 6))}{p:p})"


def _clahe(clip_limit=4, tile_grid_size=(8, 8), *, p=0.5):
    limit = clip_limit.numbers()
    tiles = "x".join(map(number_text, tile_grid_size.numbers()[::-1]))  # OpenCV takes the tiles across first
    return f"clahe({'1..' if len(limit) == 1 else ''}{clip_limit},{tiles}{p:p})"


def _sigma_of_widths(blur_limit):
    """OpenCV's sigma for a kernel's width: 0.3 ((width - 1) / 2 - 1) + 0.8."""
    ends = blur_limit.numbers() if blur_limit.given and any(blur_limit.numbers()) else [3, 7]
    low, high = ends if len(ends) == 2 else (3, ends[0])
    return range_text((15 * low + 35) / 100, (15 * high + 35) / 100)


def _sigma(sigma_limit, blur_limit):
    return f"{sigma_limit}" if any(sigma_limit.numbers()) else _sigma_of_widths(blur_limit)


_PILLOWS_EQUALIZE = "dlpipe's table is Pillow's, Albumentations' is a different one: images differ by 2 of 255 on average"


def _autocontrast(t, cutoff=0, ignore=None, method="cdf", *, p=0.5):
    if method.word() == "pil":
        return f"autocontrast({p})"
    t.note(f"method 'cdf' makes values about equally frequent, as equalize does; {_PILLOWS_EQUALIZE}")
    return f"equalize({p})"


def _equalize(t, mode="cv", by_channels=True, mask=None, mask_params=None, *, p=0.5):
    mode.word()
    t.note(_PILLOWS_EQUALIZE)
    return f"equalize({p})"


def _downscale(t, scale_range=0.25, interpolation_pair=0, *, scale_min=None, scale_max=None, interpolation=0, p=0.5):
    t.note("OpenCV's nearest picks other pixels than Pillow's, which dlpipe uses: images differ by 12 of 255 on average at scale 0.5")
    return f"downscale({_older_range(scale_range, scale_min, scale_max)}{p:p})"


def _motion_blur(t, blur_limit=(3, 7), allow_shifted=True, angle_range=(0, 360), direction_range=(-1, 1), *, p=0.5):
    if allow_shifted.raw is not False or (any(direction_range.numbers()) and _is_second(t)):
        t.note("dlpipe's line is centred and even; Albumentations' may be shifted and is stronger to one side")
    ends, far = angle_range.ends(), min(int(max(blur_limit.numbers())) // 2, 49)
    cos, sin = math.cos(math.radians(ends[0])), math.sin(math.radians(ends[0]))
    if ends[0] == ends[1] and len({(round(i * cos), round(i * sin)) for i in range(-far, far + 1)}) <= 2 * far:
        t.note("a pixel that the line meets twice counts twice in dlpipe, once in Albumentations")
    turns = ends if ends == [0, 360] else _mirrored(ends)  # Albumentations' are clockwise
    return f"motion_blur({blur_limit:widths},{range_text(*turns)}{p:p})"


def _unsharp(t, blur_limit=(3, 7), sigma_limit=0, alpha=(0.2, 0.5), threshold=10, *, p=0.5):
    if threshold.number() > 0:
        t.note("dlpipe sharpens every pixel; Albumentations sharpens those that the blur changes by more than a threshold. With the "
               "defaults photos change twice as much in dlpipe")  # fmt: skip
    return f"unsharp({_sigma(sigma_limit, blur_limit)},{alpha}{p:p})"


def _older_range(new, low, high, scale=1):
    """In releases 1.x the ends of some ranges were separate arguments."""
    if new.given or not (low.given or high.given):
        return f"{new}"
    return range_text((low if low.given else high).number() * scale, (high if high.given else low).number() * scale)


def _compression(t, compression_type="jpeg", quality_range=(99, 100), *, quality_lower=None, quality_upper=None, p=0.5):
    if compression_type.word() in ("webp", "1"):  # 1.x saves its number
        t.note("dlpipe compresses as JPEG, not as WebP")
    else:
        t.note("Albumentations swaps JPEG's red and blue: images differ by 3 of 255 on average at quality 50")
    return f"jpeg({_older_range(quality_range, quality_lower, quality_upper)}{p:p})"


def _noise(t, std_range=(0.2, 0.44), mean_range=0, *, var_limit=None, mean=0, per_channel=True, noise_scale_factor=1, p=0.5):
    deviation = f"{std_range}"
    if var_limit.given and not std_range.given:  # 1.x: variances of pixels in 0..255; one number is the largest
        ends = [round(math.sqrt(max(one, 0)) / 255, 5) for one in var_limit.numbers()]
        deviation = range_text(*(ends if len(ends) == 2 else [0, *ends]))
    return f"gaussian_noise({deviation},{mean_range if mean_range.given else mean.range(1 / 255)}{p:p})"


def _iso_noise(t, color_shift=(0.01, 0.05), intensity=(0.1, 0.5), *, p=0.5):
    """In 2.x lightness grows at few pixels, by intensity times a Poisson number with mean intensity * deviation; hue by less than a
    degree. Photos change as much on average if dlpipe's intensity is 0.2125 times the square of Albumentations'."""
    if not _is_second(t):
        t.note("dlpipe draws the noise in RGB; Albumentations draws it in HLS, with another strength")
        return f"iso_noise({color_shift},{intensity}{p:p})"
    color_shift.raw  # noqa: B018 (a degree at most)
    low, high = intensity.ends()
    squares = low * low + high * high
    share = 0.2125 * (squares + low * high) / (1.5 * squares) if squares else 0  # the mean of squares, not of their ends
    t.note("dlpipe adds noise to all pixels; Albumentations brightens few pixels far more. Photos change as much on average")
    return f"iso_noise(0..0,{range_text(*(round(share * one * one, 5) for one in (low, high)))}{p:p})"


def _erasing_by_width(t, scale=(0.02, 0.33), ratio=(0.3, 3.3), fill=0, *, p=0.5):
    """Albumentations' ratio is width over height."""
    low, high = ratio.ends()
    if low <= 0:
        ratio.cannot("above 0")
    if low != high:
        t.note("dlpipe draws the logarithm of the ratio uniformly, and sizes until one fits; Albumentations draws the ratio uniformly, and "
               "sizes among those that fit")  # fmt: skip
    return f"random_erasing({scale},{range_text(*(round(1 / one, 6) for one in (high, low)))}{fill:fill},p={p})"


def _hole_side(side, low, high):
    """Sides of holes as shares of the image's side. In Albumentations whole numbers are pixels."""
    if not isinstance(high, int):
        return range_text(low, high)
    if not side:
        raise NoEqual("its holes are in pixels, dlpipe's are shares of the image, and the image's size isn't known at this point")

    def share(pixels):
        return min(round(pixels / side, 5), 1)

    # the same numbers of whole pixels, each equally often
    return number_text(share(low + 0.5)) if low == high else range_text(share(low), share(high + 1))


def _holes(t, new, least, most, usual, fill, p):
    """CoarseDropout by its ranges or, as in releases 1.x, by minimum and maximum. A missing minimum equals the maximum."""
    is_older = any(one.given for one in most)

    def ends(new, least, most, usual):
        if new.given:
            return new.ends()
        if not is_older:
            return usual
        high = most.number() if most.given else 8
        return [least.number() if least and least.given else high, high]

    count, tall, wide = map(ends, new, least, most, usual)
    sides = t.conversion.size
    return f"coarse_dropout({range_text(*count)},{_hole_side(sides[0], *tall)},{_hole_side(sides[1], *wide)}{fill:fill}{p:p})"


def _coarse_dropout(t, *, num_holes_range=None, hole_height_range=None, hole_width_range=None, min_holes=None, min_height=None,
                    min_width=None, max_holes=None, max_height=None, max_width=None, fill=0, p=0.5):  # fmt: skip
    return _holes(t, (num_holes_range, hole_height_range, hole_width_range), (min_holes, min_height, min_width),
                  (max_holes, max_height, max_width), ([1, 2], [0.1, 0.2], [0.1, 0.2]), fill, p)  # fmt: skip


def _cutout(t, *, num_holes=8, max_h_size=8, max_w_size=8, fill=0, p=0.5):
    return (f"coarse_dropout({range_text(*num_holes.ends())},{_hole_side(t.conversion.size[0], *max_h_size.ends())},"
            f"{_hole_side(t.conversion.size[1], *max_w_size.ends())}{fill:fill}{p:p})")  # fmt: skip


def _normalize_pixels(t, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), max_pixel_value=255, normalization="standard", *, p=1):
    return t.conversion.normalized(mean, std)


def _random_resized(t, size=None, scale=(0.08, 1), ratio=("3/4", "4/3"), interpolation=1, *, height=None, width=None,
                    area_for_downscale=None, p=1):  # fmt: skip
    sides = f"{size:size}" if size.given or not height.given else f"{height:size}x{width:size}"
    return f"rrc({sides},{scale},{ratio}{interpolation:filter})"


def _of_one_side(side):
    def resized(t, max_size, *, max_size_hw=None, interpolation=1, area_for_downscale=None, p=1):
        t.note("the other side is truncated to whole pixels in dlpipe, rounded in Albumentations")
        return f"resize({max_size:size}{interpolation:filter}{side})"

    return resized


def _middle(t, height, width, *, pad_if_needed=False, pad_position=..., border_mode=..., fill=..., p=1):
    """Both round half of the margin: Albumentations down, dlpipe to an even number."""
    left = [side - crop.number() for side, crop in zip(t.conversion.size, (height, width))]
    if not all(t.conversion.size) or any(one % 4 == 3 for one in left):
        t.note("it begins one pixel later in dlpipe if the margin is 3, 7, 11, ... pixels")
    return f"center_crop({height}x{width})"


def _safe_resized(height, width, erosion_rate=0, interpolation=1, *, p=1):
    both = f"safe_crop({erosion_rate}) resize({height}x{width}{interpolation:filter})"
    return f"one_of({both}{p:p})" if f"{p:p}" else both


def _mosaic(t, *, grid_yx=(2, 2), target_size=(512, 512), cell_shape=(512, 512), center_range=(0.3, 0.7), fit_mode="cover",
            interpolation=1, fill=0, p=0.5):  # fmt: skip
    """A mosaic of two by two. Its cells meet at a point of the output, as in dlpipe."""
    if grid_yx.numbers() != [2, 2]:
        grid_yx.cannot("2 by 2")
    target, cell = ((one.single() if len(set(one.numbers())) == 1 else one.cannot("a square")) for one in (target_size, cell_shape))
    if target % 2:
        target_size.cannot("an even number")
    longer = ",side=longer" if fit_mode.word() == "contain" else ""
    t.note("dlpipe cuts images where they meet, Albumentations at random; dlpipe draws the other images from the dataset")
    rest = f" pad_to({target}) center_crop({target})" if p.number() != 1 else ""
    return (f"resize({cell}{interpolation:filter}{longer}) mosaic({target // 2},center={center_range}{fill:fill}"
            f"{'' if f'{fill:fill}' else ',fill=0'}{p:p}){rest}")  # fmt: skip


def _pad_if_needed(t, min_height=None, min_width=None, *, pad_height_divisor=None, pad_width_divisor=None, position="center",
                   border_mode=0, fill=0, p=1):  # fmt: skip
    sides = [number_text(side.number()) if side.given else "1" if divisor.given else "1024"
             for side, divisor in ((min_height, pad_height_divisor), (min_width, pad_width_divisor))]  # fmt: skip
    if pad_height_divisor.given or pad_width_divisor.given:
        t.note("dlpipe pads to a size, not to a multiple of the divisors")
    # All images have this size then, but only a crop makes it known to the loader. The crop removes nothing.
    size = "x".join(sides)
    crop = f" center_crop({size})" if 0 < t.conversion.limit <= min(map(float, sides)) else ""
    return f"pad_to({size}{border_mode:border}{fill:fill}){crop}"


def _mirrored(ends):
    """The range of angles in the opposite direction, for a range that is drawn from uniformly."""
    return [0 - ends[1], 0 - ends[0]]


def _moves(t, all_):
    """An affine's translations along both axes, as shares."""
    if any(low == high != 0 for low, high in all_):
        t.note("a translation is rounded to whole pixels in dlpipe, truncated in Albumentations")
    return [range_text(*ends) for ends in all_]


def _shift_scale_rotate(t, shift_limit=0.0625, scale_limit=0.1, rotate_limit=45, interpolation=1, border_mode=0, *, shift_limit_x=None,
                        shift_limit_y=None, fill=0, p=0.5):  # fmt: skip
    def symmetric(one):
        values = one.numbers()
        return [-values[0], values[0]] if len(values) == 1 else one.ends()

    moves = ",".join(_moves(t, [symmetric(one if one.given else shift_limit) for one in (shift_limit_x, shift_limit_y)]))
    turns = range_text(*_mirrored(symmetric(rotate_limit)))  # Albumentations' is counter-clockwise
    return f"affine({turns},{moves},{scale_limit.range(add=1)}{interpolation:warp}{border_mode:outside}{fill:fill}{p:p})"


def _axis(argument, axis, usual):
    """The range of an Affine argument for one axis. It is a number or a range for both axes, or a dict. One number is not random."""
    value = argument.raw
    if isinstance(value, dict):
        value = value.get(axis)
    if value is None:
        return [usual, usual]
    values = [argument.number(one) for one in value] if isinstance(value, (list, tuple)) else [argument.number(value)] * 2
    return values if len(values) == 2 else argument.cannot("one number or two")


def _as_one_op(matrix):
    """The angle, scale and shears for which the op `affine` has the matrix (a, b, c, d); None if there are none. The op's matrix is
    a scale times rotation after shear of y after shear of x."""
    a, b, c, d = matrix
    if a * d - b * c <= 0:
        return None
    size = math.sqrt(a * d - b * c)
    far = math.hypot(a, c) / size
    if far < 1 - 1e-9:
        return None
    turned = math.acos(min(1, 1 / far))
    angle = min((math.atan2(c, a) + one for one in (-turned, turned)), key=abs)
    cos, sin = math.cos(angle) / size, math.sin(angle) / size
    lean = -(cos * b + sin * d), -(cos * c - sin * a)
    return [round(one, 6) for one in (math.degrees(angle), size, *(math.degrees(math.atan(one)) for one in lean))]


def _fixed_affine(turn, scale, shear, moves, rest):
    """Affine with constant numbers, whose matrix is shear after rotation after scale, as one op; or as one op between two
    transpositions, if the first column of the matrix is too short."""
    cos, sin = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    x, y = (-math.tan(math.radians(one)) for one in shear)
    a, b, c, d = (cos - x * sin) * scale[0], (sin + x * cos) * scale[1], (y * cos - sin) * scale[0], (y * sin + cos) * scale[1]
    upright, turned = _as_one_op((a, b, c, d)), _as_one_op((d, c, b, a))
    if not upright and not turned:
        raise NoEqual("its matrix mirrors the image")
    angle, size, *lean = (range_text(one, one) for one in upright or turned)
    made = f"affine({angle},{','.join(moves if upright else moves[::-1])},{size},{','.join(lean)}{rest})"
    return made if upright else f"transpose(1) {made} transpose(1)"


def _affine(t, *, scale=1, translate_percent=None, translate_px=None, rotate=0, shear=0, interpolation=1, fit_output=False,
            keep_ratio=False, balanced_scale=False, border_mode=0, fill=0, p=0.5):  # fmt: skip
    """Scale, counter-clockwise rotation (clockwise before version 1.2.1), shear and translation. Before 1.4.19 scikit-image did the
    shear, which depends on its release."""
    moves = [one if one != "0..0" else "0" for one in _moves(t, [_axis(translate_percent, axis, 0) for axis in "xy"])]
    if any(any(_axis(translate_px, axis, 0)) for axis in "xy"):
        t.note("translations in pixels are left out; write translate(x, y, pixels)")
    wide, tall = (_axis(scale, axis, 1) for axis in "xy")
    turns, leans = _axis(rotate, "x", 0), [_axis(shear, axis, 0) for axis in "xy"]
    version = t.conversion.version or (2,)
    if version < (1, 4, 19) and any(map(any, leans)):
        raise NoEqual("before Albumentations 1.4.19 its shear is scikit-image's, and depends on that library's release")
    rest = f"{interpolation:warp}{border_mode:outside}{fill:fill}"

    def perhaps(chain):
        return f"one_of({chain}{p:p})" if f"{p:p}" else chain

    angles = turns if version < (1, 2, 1) else _mirrored(turns)
    is_fixed = all(low == high for low, high in (wide, tall, turns, *leans))
    if is_fixed and (any(map(any, leans)) or wide != tall):
        return perhaps(_fixed_affine(-angles[0], (wide[0], tall[0]), [ends[0] for ends in leans], moves, rest))
    if wide != tall or (wide[0] != wide[1] and keep_ratio.raw is not True):
        t.note("dlpipe scales width and height alike, by the first draw; Albumentations draws a scale for each")
    size = range_text(*wide) if wide != [1, 1] else "1"
    if not any(map(any, leans)):
        return f"affine({range_text(*angles)},{','.join(moves)},{size},0,0{rest}{p:p})"
    lean = ",".join(range_text(*ends) if any(ends) else "0" for ends in leans)
    if not any(turns) and not all(map(any, leans)):
        return f"affine(0..0,{','.join(moves)},{size},{lean}{rest}{p:p})"
    t.note("dlpipe rotates and then shears (columns before rows) in two steps, each of which interpolates and crops; Albumentations does both "
           "at once")  # fmt: skip
    return perhaps(f"affine({range_text(*angles)},0,0,{size}{rest}) affine(0..0,{','.join(moves)},1,{lean}{rest})")


def _grid(t, num_steps=5, distort_limit=(-0.3, 0.3), interpolation=1, *, normalized=True, border_mode=0, fill=0, p=0.5):
    t.note("Albumentations reads pixels from up to one pixel further away, because the last pixel of a cell is the first of the next")
    return f"grid_distortion({num_steps},{distort_limit}{interpolation:warp}{border_mode:outside}{fill:fill}{p:p})"


def _elastic_transform(t, alpha=1, sigma=50, *, interpolation=1, approximate=False, same_dxdy=False, noise_distribution=None,
                       alpha_affine=None, border_mode=0, fill=0, p=0.5):  # fmt: skip
    # Releases 1.x drew uniformly and had no argument for it.
    is_older = t.conversion.version is not None and not noise_distribution.given
    is_normal = not is_older and (not noise_distribution.given or noise_distribution.word() == "gaussian")
    return _elastic(t, alpha, sigma, is_normal, 1, f"{interpolation:warp}{border_mode:outside}{fill:fill}{p:p}")


def _some_of(t, transforms, n=1, replace=False, *, p=1):
    return t.conversion.some_of(t, transforms, n.number(), p)


def _one_or_other(t, first=None, second=None, transforms=None, *, p=0.5):
    given = [one.raw for one in (first, second) if one.given]
    return t.conversion.one_or_other(given or t.conversion.listed(transforms), p.number())


def _composed(t, transforms, bbox_params=None, *, p=1):
    chain = t.conversion.sequence(transforms)
    return t.conversion.perhaps(" ".join(filter(None, (chain, t.conversion.dropped(t, bbox_params, chain)))), p.number())


_SYMMETRY = lambda p=1: f"one_of(rot90(0..3) hflip(0.5){p:p})"  # noqa: E731
ALBUMENTATIONS = {
    "HorizontalFlip": lambda *, p=0.5: f"hflip({p})",
    "VerticalFlip": lambda *, p=0.5: f"vflip({p})",
    "Transpose": lambda *, p=0.5: f"transpose({p})",
    "RandomRotate90": lambda *, p=1: f"rot90(0..3{p:p})",
    "D4": _SYMMETRY,
    "SquareSymmetry": _SYMMETRY,
    "ToGray": lambda num_output_channels=3, method="weighted_average", *, p=0.5: f"grayscale({p})",
    "InvertImg": lambda *, p=0.5: f"invert({p})",
    "AutoContrast": _autocontrast,
    "Equalize": _equalize,
    "ChannelShuffle": lambda *, p=0.5: f"channel_shuffle({p})",
    "ChannelDropout": lambda channel_drop_range=1, fill=0, *, p=0.5: f"channel_drop({channel_drop_range}{fill:fill}{p:p})",
    "ColorJitter": _jitter,
    "RandomBrightnessContrast": _brightness,
    "HueSaturationValue": _hue,
    "Posterize": lambda num_bits=4, *, p=0.5: f"posterize({num_bits}{p:p})",
    "Solarize": _solarize_range,
    "RandomGamma": lambda gamma_limit=(80, 120), *, eps=None, p=0.5: f"gamma({gamma_limit.range(0.01)}{p:p})",
    "FancyPCA": _fancy_pca,
    "CLAHE": _clahe,
    "GaussianBlur": lambda blur_limit=0, sigma_limit=(0.5, 3), *, p=0.5: f"gaussian_blur(sigma={_sigma(sigma_limit, blur_limit)}{p:p})",
    "Blur": lambda blur_limit=(3, 7), *, p=0.5: f"box_blur({blur_limit:widths}{p:p})",
    "MedianBlur": lambda blur_limit=(3, 7), *, p=0.5: f"median_blur({blur_limit:widths}{p:p})",
    "MotionBlur": _motion_blur,
    "UnsharpMask": _unsharp,
    "Emboss": lambda alpha=(0.2, 0.5), strength=(0.2, 0.7), *, p=0.5: f"emboss({alpha},{strength}{p:p})",
    "Downscale": _downscale,
    "ImageCompression": _compression,
    "GaussNoise": _noise,
    "ISONoise": _iso_noise,
    "CoarseDropout": _coarse_dropout,
    "Cutout": _cutout,  # of releases 1.x
    "Erasing": _erasing_by_width,
    "Normalize": _normalize_pixels,
    "RandomResizedCrop": _random_resized,
    "Resize": lambda height, width, interpolation=1, *, area_for_downscale=None, p=1: (
        f"resize({height}x{width}{interpolation:filter})"),
    "SmallestMaxSize": _of_one_side(""),
    "LongestMaxSize": _of_one_side(",side=longer"),
    "CenterCrop": _middle,
    "RandomCrop": lambda height, width, *, pad_if_needed=False, pad_position=..., border_mode=..., fill=..., p=1: (
        f"random_crop({height}x{width})"),
    "BBoxSafeRandomCrop": lambda erosion_rate=0, *, p=1: f"safe_crop({erosion_rate}{p:p})",
    "RandomSizedBBoxSafeCrop": _safe_resized,
    "Mosaic": _mosaic,
    "PadIfNeeded": _pad_if_needed,
    "Rotate": lambda limit=(-90, 90), interpolation=1, border_mode=0, *, crop_border=False, fill=0, p=0.5: (
        f"rotate({limit}{interpolation:warp}{border_mode:outside}{fill:fill}{p:p})"),
    "Affine": _affine,
    "ShiftScaleRotate": _shift_scale_rotate,
    "GridDistortion": _grid,
    "ElasticTransform": _elastic_transform,
    "ToFloat": _to_float,
    "ToTensorV2": lambda t, transpose_mask=..., *, p=1: _is_tensor(t),
    "Compose": _composed,
    "ReplayCompose": _composed,
    "Sequential": lambda t, transforms, *, p=0.5: t.conversion.perhaps(t.conversion.sequence(transforms), p.number()),
    "OneOf": lambda t, transforms, *, p=0.5: t.conversion.one_of(transforms, p=p.number(), is_forced=True),
    "OneOrOther": _one_or_other,
    "SomeOf": _some_of,
    "RandomOrder": _some_of,
    "ToRGB": lambda t, num_output_channels=3, *, p=1: _rgb(t),
    "NoOp": _nothing,
}  # fmt: skip

# timm


def _part_of(config, key, usual):
    """The number after `key` in a text such as "rand-m9-mstd0.5-inc1"."""
    found = re.search(rf"-{key}([0-9.]+)(?=-|$)", config)
    return float(found[1]) if found else usual


def _rrc(size, scale, ratio, interpolation):
    """timm's crop draws one of two filters if none is given."""
    both = f"rrc({size},{scale},{ratio}"
    if interpolation.word() == "random" or isinstance(interpolation.raw, (list, tuple)):
        return f"one_of({both}) | {both},interpolation=bicubic))"
    return f"{both}{interpolation:filter})"


def _by_text(t, argument, fill):
    """rand_augment_transform, auto_augment_transform and augment_and_mix_transform, from their configuration string."""
    config = argument.raw if isinstance(argument.raw, str) else argument.cannot("a string")
    kind = config.split("-")[0]
    if kind == "3a":
        return "three_augment(0)"
    if kind == "augmix":
        t.note("dlpipe's AugMix has torchvision's ops and magnitudes; timm has some of its own")
        depth = _part_of(config, "d", -1)
        return (f"augmix({number_text(_part_of(config, 'm', 3))},{number_text(_part_of(config, 'w', 3))}"
                f"{f',{number_text(depth)}' if depth > 0 else ''},alpha={number_text(_part_of(config, 'a', 1))}{fill})")  # fmt: skip
    if kind in ("original", "originalr", "v0", "v0r"):
        t.note("dlpipe's policy is torchvision's AutoAugment of ImageNet; timm's differs in some magnitudes")
        return f"auto_augment(imagenet{fill})"
    if kind != "rand":
        argument.cannot("a policy string such as 'rand-m9-mstd0.5'; write it")
    t.note("dlpipe's RandAugment has torchvision's fourteen ops, timm has others; timm's magnitudes are of 10, dlpipe's of 30 and not spread "
           "(mstd)")  # fmt: skip
    magnitude = number_text(round(3 * min(_part_of(config, "m", 10), 10)))
    return (f"repeat({number_text(_part_of(config, 'n', 2))},randaugment(1,{magnitude},31{fill},"
            f"p={number_text(_part_of(config, 'p', 0.5))}))")  # fmt: skip


def _by_text_given(t, config_str, hparams=None, transforms=None):
    colour = hparams.raw.get("img_mean", 128) if isinstance(hparams.raw, dict) else 128
    return _by_text(t, config_str, f",fill={':'.join(map(str, colour)) if isinstance(colour, (list, tuple)) else colour}")


def _blocks(t, p, mode, least, most, ratio):
    """RandomErasing with random values, or with the colour of the mean, as after Normalize."""
    if mode.word() not in ("const", "rand", "pixel", ""):
        mode.cannot("'const', 'rand' or 'pixel'; write it")
    is_noise = mode.word() in ("pixel", "rand")
    if is_noise:
        t.note("dlpipe's random values are uniform, the library's are drawn from a normal distribution")
    fill = ":".join(map(number_text, t.conversion.pixels([0]))) if t.conversion.mean else ""
    colour = ",mode=noise" if is_noise else f",fill={fill}" if fill else ""
    return f"random_erasing({number_text(least)}..{number_text(most)},{ratio}{colour},p={number_text(p)})"


def _timm_erasing(t, probability=0.5, min_area=0.02, max_area="1/3", min_aspect=0.3, max_aspect=None, mode="const", min_count=1,
                  max_count=None):  # fmt: skip
    if max_count.given and max_count.number() > 1:
        t.note("dlpipe erases one rectangle, timm up to max_count")
    aspect = min_aspect.number()
    ratio = range_text(aspect, max_aspect.number() if max_aspect.given else 1 / aspect)
    return _blocks(t, probability.number(), mode, min_area.number(), max_area.number(), ratio)


def _created(t, input_size=224, is_training=False, no_aug=False, *, train_crop_mode=None, scale=(0.08, 1), ratio=("3/4", "4/3"), hflip=0.5,
             vflip=0, color_jitter=None, color_jitter_prob=None, force_color_jitter=False, grayscale_prob=0, gaussian_blur_prob=0,
             auto_augment=None, interpolation="bilinear", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), re_prob=0,
             re_mode="const", re_count=1, re_num_splits=..., crop_pct=0.875, crop_mode="center", crop_border_pixels=None,
             tf_preprocessing=False, use_prefetcher=..., normalize=True, separate=False):  # fmt: skip
    sides = input_size.numbers() if input_size.given else [224]
    if is_training.raw not in (True, False):
        is_training.cannot("True or False; write it")
    sizes = [number_text(one) for one in sides[-2:]]
    if not is_training.raw:
        larger = [number_text(math.floor(one / crop_pct.number())) for one in sides[-2:]]
        larger = larger[:1] if len(set(larger)) == 1 else larger  # the shorter side
        t.conversion.normalized(mean, std)
        return f"resize({'x'.join(larger)}{interpolation:filter}) center_crop({'x'.join(sizes)})"
    chain = [_rrc("x".join(sizes), scale, ratio, interpolation)]

    def with_chance(argument, op):
        if argument.number() > 0:
            chain.append(f"{op}{argument})")

    with_chance(hflip, "hflip(")
    with_chance(vflip, "vflip(")
    colour = [min(round(255 * one), 255) for one in mean.numbers()]
    policy = auto_augment.raw
    if auto_augment.given and policy != "":
        chain.append(_by_text(t, auto_augment, f",fill={':'.join(map(str, colour))}"))
    if color_jitter.given and not isinstance(color_jitter.raw, (list, tuple)):
        color_jitter.number()
    is_jittered = policy in (None, "", "3a") or force_color_jitter.raw is True
    if is_jittered and (not color_jitter.given or any(color_jitter.numbers())):
        given = color_jitter.numbers() if color_jitter.given else [0.4]
        parts = (given * 3 if len(given) == 1 and not isinstance(color_jitter.raw, (list, tuple)) else given) + [0] * 4
        chance = f",p={color_jitter_prob}" if color_jitter_prob.given else ""
        chain.append(f"color_jitter({','.join(map(number_text, parts[:4]))}{chance})")
    elif color_jitter_prob.given:
        color_jitter_prob.number()
    with_chance(grayscale_prob, "grayscale(")
    with_chance(gaussian_blur_prob, "gaussian_blur(23,0.1..2,")
    t.conversion.normalized(mean, std)
    if re_count.number() > 1:
        t.note("dlpipe erases one rectangle, timm up to re_count")
    if re_prob.number() > 0:
        chain.append(_blocks(t, re_prob.number(), re_mode, 0.02, "1/3", "0.3..10/3"))
    return " ".join(chain)


TIMM = {
    "create_transform": _created,
    "rand_augment_transform": _by_text_given,
    "auto_augment_transform": _by_text_given,
    "augment_and_mix_transform": _by_text_given,
    "RandomResizedCropAndInterpolation": lambda size, scale=(0.08, 1), ratio=("3/4", "4/3"), interpolation="bilinear": (
        _rrc(f"{size:size}", scale, ratio, interpolation)),
    "RandomErasing": _timm_erasing,
    "ToTensor": _is_unit,
    "MaybeToTensor": _is_unit,
    "MaybePILToTensor": _is_tensor,
    "ToNumpy": _is_tensor,  # [C,H,W], too
}  # fmt: skip

# torch.nn's containers, and the transforms of Kornia that act on single images as the ops do

TORCH = {
    "Sequential": lambda t, transforms=(): t.conversion.sequence(transforms),
    "ModuleList": lambda t, transforms=(): t.conversion.sequence(transforms),
    "Identity": _nothing,
}
KORNIA = {
    "RandomHorizontalFlip": lambda p=0.5: f"hflip({p})",
    "RandomVerticalFlip": lambda p=0.5: f"vflip({p})",
    "Normalize": lambda t, mean, std, p=1: t.conversion.normalized(mean, std),
    "AugmentationSequential": lambda t, transforms=(): t.conversion.sequence(transforms),
    "ImageSequential": lambda t, transforms=(): t.conversion.sequence(transforms),
}

RULES = dict(zip(LIBRARIES, (TORCHVISION, ALBUMENTATIONS, TIMM, TORCH, KORNIA)))
#: Transforms that do nothing in dlpipe, and those that only change the range of the values that follow.
NOTHING = {name for rules in RULES.values() for name, rule in rules.items() if rule is _nothing}
NO_OPS = NOTHING | {"ToTensor", "PILToTensor", "ToImage", "ToPILImage", "ToDtype", "ConvertImageDtype", "ToFloat", "ToTensorV2",
                    "MaybeToTensor", "MaybePILToTensor", "ToNumpy", "RGB", "ToRGB"}  # fmt: skip


def rule_of(call):
    return RULES.get(call.library, {}).get(call.name)


def why_no_rule(call):
    if not call.library and call.origin:
        return f"it is {call.origin}, not torchvision's, Albumentations' or timm's"
    if call.name == "Lambda":
        return ("it is your own Python code; dlpipe.Loader runs such code over batches with transform=, or compiled "
                "(dlpipe.add_augmentation)")  # fmt: skip
    if last_word(call.name) in ("mixup", "cutmix"):
        kind = last_word(call.name)
        return f"it mixes batches; use `dlpipe train --{kind} ALPHA` or {kind}= of dlpipe.Loader"
    return "dlpipe has no such op"

"""Converts the records of a recipe's transforms to an expression."""

from __future__ import annotations

import re

from dlpipe.errors import Error
from dlpipe.recipes.call import CONTAINERS, Bound, Call, NoEqual, Unread, is_number, number_text, parameters_of, shown
from dlpipe.recipes.rules import NO_OPS, NOTHING, rule_of, why_no_rule

_LONGEST = 200
#: Values in [0, 1], as ToTensor makes them.
UNIT = "normalize(0,1)"
#: Floats of 0..255, as ToDtype makes them without scale=True: divided by 1/255.
UNSCALED = "normalize(0,0.00392156863)"
#: Ops that don't depend on pixel values: they may as well come before Normalize.
_MOVES = set("hflip vflip transpose rot90 resize rrc center_crop random_crop pad pad_to pad_crop rotate affine perspective elastic "
             "grid_distortion safe_crop ssd_crop drop_boxes one_of some_of any_order random_erasing".split())  # fmt: skip


#: Ops that change the size of boxes, and the names of the ops in an expression.
_RESIZES = set("resize rrc center_crop random_crop pad_crop rotate affine perspective elastic grid_distortion safe_crop ssd_crop "
               "mosaic".split())  # fmt: skip
#: Ops that keep the length of the longer side.
_TURNS = set("hflip vflip transpose rot90 one_of".split())
#: A resize that limits both sides.
_LIMITS = re.compile(r"resize\((\d+)(?=[,)])[^()|]*,side=longer\)")
_OPS = re.compile(r"\b[a-z][a-z_0-9]+(?=[( ]|$)")


class Alternative:
    """A transform inside a choice, and its weight."""

    def __init__(self, expression, weight, is_no_op):
        self.expression, self.weight, self.is_no_op = expression, weight, is_no_op


def _choice(all_, p):
    """one_of(...) of the alternatives that do something, with weights if they differ. The share of the others lowers p."""
    total = sum(one.weight for one in all_ if one.is_no_op or one.expression)
    idle = sum(one.weight for one in all_ if one.is_no_op)
    left = [one for one in all_ if one.expression]
    if not left:
        return ""
    if idle:
        p *= 1 - idle / total
    weights = [number_text(one.weight) for one in left]
    return (f"one_of({' | '.join(one.expression for one in left)}{'' if p == 1 else f',p={number_text(p)}'}"
            f"{',weights=' + ':'.join(weights) if len(set(weights)) > 1 else ''})")  # fmt: skip


class Conversion:
    """Converts one recipe, from its first transform to its last. `size` is the image's (height, width) if known, `unit` the
    largest value of a pixel, `version` Albumentations' version; `chain_size` is dlpipe's own parser."""

    def __init__(self, chain_size, version=None):
        self._chain_size, self.version = chain_size, version
        self.name, self.line, self.augment = "", 0, ""
        self.no_equal, self.notes = [], []
        self.normalize, self.mean, self.std = "", [], []  # dlpipe's normalize comes last, wherever the library's is
        self.unit, self.size = 255, (0, 0)
        self.limit = 0  # of both sides, for images of different sizes (set by LongestMaxSize); 0: none
        self.scale = ""
        self.done = set()  # the ops so far
        self.channels = 0  # set by Grayscale, RGB and Normalize; 0: those of the image
        self.says_channels = False  # whether the expression also needs the option `channels`
        self.is_unscaled, self.is_tensor = False, False  # numbers of 0..255 in floats; torch's resizes instead of Pillow's

    def run(self, calls):
        parts = [self.convert(one) for one in calls]
        if not self.normalize:
            self.scale = UNIT if self.unit == 1 else UNSCALED if self.is_unscaled else ""
        self.augment = " ".join(filter(None, [*parts, self.normalize, self.scale]))
        try:
            self._chain_size(self.augment, (0, 0))
        except Error as error:
            self.no_equal.append(f"the whole expression: dlpipe refuses {self.augment}: {error}")
            self.augment = ""
        return self

    def convert(self, item):
        before, limit, said = self.size, self.limit, (len(self.no_equal), len(self.notes))
        try:
            expression = self._call(item)
        except NoEqual as error:
            self.no_equal.append(f"{item.name}: {error}")
            expression = ""
        line = getattr(item, "line", None)
        for messages, first in zip((self.no_equal, self.notes), said):
            messages[first:] = [one if line is None or one.startswith("line ") else f"line {line}: {one}" for one in messages[first:]]
        self.size, self.limit = before, limit
        if expression:
            self.size = self._chain_size(expression, before)
            self.limit = self._limit_after(expression, limit)
        return expression

    def _limit_after(self, expression, limit):
        """The limit of both sides after the expression, for images that have the limit `limit` before it; 0: none."""
        ops, limits = _OPS.findall(expression), [int(one) for one in _LIMITS.findall(expression)]
        if limits and not {"one_of", "some_of", "any_order"}.intersection(ops):
            rest = expression[max(found.end() for found in _LIMITS.finditer(expression)):]
            return self._limit_after(rest, limits[-1]) if rest.strip() else limits[-1]
        if _TURNS.issuperset(ops):
            return limit
        keep = [(37, 64), (64, 37)]
        return limit if [self._chain_size(expression, one) for one in keep] == keep else 0

    def _call(self, call):
        if not isinstance(call, Call) or not is_class(call):
            self.no_equal.append(f"{shown(call)[:_LONGEST]}: it is only known when the program runs")
            return ""
        rule = rule_of(call)
        if rule is None:
            raise NoEqual(why_no_rule(call))
        if call.name in NOTHING:
            return ""
        if call.name in CONTAINERS and call.args and all(isinstance(one, Call) and is_class(one) for one in call.args):
            call.args = [call.args] if call.name != "OneOrOther" else call.args  # as torch.nn takes them, and torchvision prints them
        was_normalized, channels = bool(self.normalize), self.channels
        bound = Bound(call, rule, self)
        expression = bound.apply()
        if call.name in CONTAINERS:
            if not was_normalized and self.normalize and not self._always_runs(bound):
                self.no_equal.append(f"Normalize: it is inside {call.name}, but dlpipe always normalises images")
            if self.channels == 1 != channels and not self._always_runs(bound):
                self.notes.append(f"Grayscale: it is inside {call.name}, but in dlpipe all images then have one channel")
            return expression
        ops = set(_OPS.findall(expression))
        self.done |= ops
        if self.is_unscaled and ops - _MOVES - {"gaussian_blur"}:
            self.notes.append(f"{call.name}: the library expects floats in 0..1 here, but they are in 0..255: give ToDtype scale=True")
        if was_normalized and ops - _MOVES:
            self.notes.append(f"{call.name}: it comes after Normalize, but dlpipe runs it before; its numbers then apply to pixel values")
        try:
            self._chain_size(expression, (0, 0))
        except Error as error:
            raise NoEqual(f"dlpipe refuses {expression}: {error}") from None
        return expression

    @staticmethod
    def _always_runs(bound):
        p = bound.arguments.get("p")
        is_sequence = bound.name in CONTAINERS - {"OneOf", "OneOrOther", "RandomChoice", "SomeOf", "RandomOrder"}
        return is_sequence and (p is None or p.number() == 1)

    # called by rules

    def pixels(self, values):
        """Converts values in the range at this transform to whole numbers of 0..255."""
        if self.mean:
            channels = max(len(values), len(self.mean))
            values, means, stds = (one * channels if len(one) == 1 else one for one in (list(values), self.mean, self.std))
            values = [(one * std + mean) * 255 for one, mean, std in zip(values, means, stds)]
        elif self.unit == 1:
            values = [one * 255 for one in values]
        else:
            return values
        if min(values) < -0.5 or max(values) > 255.5:
            self.notes.append("a colour is outside the range of pixel values at this point: dlpipe uses the nearest value in the range")
        return [min(max(int(one + 0.5), 0), 255) for one in values]

    def normalized(self, mean, std):
        if self.normalize:
            raise NoEqual("dlpipe normalises images once, at the end")
        self.mean, self.std = ([one / 255 if self.is_unscaled else one for one in part.numbers()] for part in (mean, std))
        self.normalize = f"normalize({','.join(':'.join(map(number_text, part)) for part in (self.mean, self.std))})"
        self.std = self.std * len(self.mean) if len(self.std) == 1 else self.std
        if max(len(self.mean), len(self.std)) == 3:  # one channel becomes three
            self.channels, self.says_channels = 3, False
        return ""

    def gives_channels(self, t, channels):
        """From here on, images have one channel or three. dlpipe decodes them with as many."""
        if channels == 1 and self.done - _MOVES - {"grayscale"}:
            t.note(f"it comes after {min(self.done - _MOVES - {'grayscale'})}, but dlpipe's images have one channel from the start")
        self.channels, self.says_channels = channels, True

    def notes_of_text(self):
        """The notes of the expression alone, without the options that belong to it."""
        about = {1: "its images have one channel: give channels=1 (--channels 1) with the expression",
                 3: "its images have three channels: give channels=3 (--channels 3) with the expression if yours are grey"}  # fmt: skip
        return self.notes + ([about[self.channels]] if self.says_channels else [])

    def listed(self, transforms):
        if not transforms.given:
            return []
        value = transforms.raw
        if isinstance(value, Unread) and value.inner or isinstance(value, Call) and is_class(value):
            return [value]
        return list(value) if isinstance(value, (list, tuple)) else transforms.cannot("a list of transforms")

    def sequence(self, transforms):
        return " ".join(filter(None, map(self.convert, self.listed(transforms))))

    def perhaps(self, expression, p):
        return expression if p == 1 or not expression else f"one_of({expression},p={number_text(p)})"

    def alternatives(self, items, is_forced=False, is_choice=True):
        """Converts each item. `is_forced`: ignore its p. `is_choice`: each item gets the same input image, as only one of them runs."""
        before, limit, all_ = self.size, self.limit, []
        for one in items:
            weight, is_call = 1, isinstance(one, Call)
            if is_call:
                rule = rule_of(one)
                usual = parameters_of(rule)[0].get("p", 0.5 if one.name == "NoOp" else 1) if rule else 1
                weight = one.kwargs.get("p", usual)
                weight = weight if is_number(weight) else usual if is_number(usual) else 1
            # those named here ignore is_forced
            if is_forced and is_call and one.name not in ("SomeOf", "RandomOrder", "OneOrOther") and rule_of(one):
                one = Call(one.library, one.name, one.args, {**one.kwargs, **({"p": 1} if "p" in parameters_of(rule)[0] else {})},
                           one.line, one.origin, one.text)  # fmt: skip
            if is_choice:
                self.size, self.limit = before, limit
            all_.append(Alternative(self.convert(one), weight, is_call and one.name in NO_OPS))
        return all_

    def one_of(self, transforms, weights=None, p=1, is_forced=False):
        all_ = self.alternatives(self.listed(transforms), is_forced)
        if weights is not None:
            given = weights.numbers() if weights.given and isinstance(weights.raw, (list, tuple)) else None
            if weights.given and (given is None or len(given) != len(all_)):
                weights.cannot("a number for each transform")
            for i, one in enumerate(all_):
                one.weight = given[i] if given else 1
        return _choice(all_, p)

    def one_or_other(self, items, p):
        """Runs the first item with probability p, else the last."""
        all_ = self.alternatives(items, is_forced=True)
        for i, one in enumerate(all_):
            one.weight = p if i == 0 else 1 - p if i + 1 == len(all_) else 0
        return _choice([one for one in all_ if one.weight > 0], 1)

    def in_any_order(self, transforms):
        return self._several("any_order(", self.alternatives(self.listed(transforms), is_choice=False), "")

    def some_of(self, t, transforms, n, p):
        """Albumentations' SomeOf and RandomOrder. In releases 1.x, SomeOf always runs what it draws, like OneOf; later each p applies."""
        is_first = self.version is not None and self.version < (2,)
        all_ = self.alternatives(self.listed(transforms), is_first and t.name == "SomeOf", is_choice=False)
        n = min(n, sum(bool(one.expression) for one in all_))
        if t.name == "RandomOrder" and n == sum(bool(one.expression) for one in all_):
            return self._several("any_order(", all_, f"{p:p}")
        if t.name == "RandomOrder" and n > 1:
            t.note("dlpipe runs the drawn transforms in the order in which they are written")
        if is_first and len({one.weight for one in all_}) > 1:
            t.note("dlpipe draws all equally often; Albumentations uses their p as weights")
        return self._several(f"some_of({number_text(n)}, ", all_, f"{p:p}")

    def _several(self, begin, all_, end):
        inner = " | ".join(one.expression for one in all_ if one.expression)
        return f"{begin}{inner}{end})" if inner else ""

    def dropped(self, t, bbox_params, chain):
        """drop_boxes(...) for Albumentations' bbox_params, to append to `chain`."""
        given = bbox_params.raw
        given = given.kwargs if isinstance(given, Call) else given if isinstance(given, dict) else {}
        numbers = [given.get(key) or 0 for key in ("min_visibility", "min_width", "min_height", "min_area")]
        if given.get("max_accept_ratio"):
            t.note(f"max_accept_ratio={shown(given['max_accept_ratio'])} of its bbox_params is left out")
        share, width, height, area = (one if is_number(one) else bbox_params.cannot(value=one) for one in numbers)
        if not any(numbers):
            return ""
        ops = _OPS.findall(chain)
        later = _RESIZES.intersection(ops[1:]) if width or height or area else sum(one in _RESIZES for one in ops) > 1
        if later and given.get("check_each_transform") is not False:
            t.note("dlpipe drops boxes by their size at the end, Albumentations after each transform")
        if width != height:
            t.note("dlpipe has one limit for the width and height of boxes: it uses the larger of min_width and min_height")
        return f"drop_boxes({number_text(share)},{number_text(max(width, height))},{number_text(area)})"


def is_class(call):
    """Whether the call may be a transform, judging by its name."""
    return call.name[:1].isupper() or rule_of(call) is not None


def is_transform(value):
    """Whether the value is a transform that dlpipe can convert, one that contains such a transform, or a list with one."""
    if isinstance(value, (list, tuple)):
        return any(map(is_transform, value))
    if not isinstance(value, Call):
        return False
    if value.name in CONTAINERS and value.library:
        return value.name in ("Compose", "ReplayCompose") or holds_transform(value)
    return rule_of(value) is not None


def holds_transform(value):
    if isinstance(value, Call):
        value = [*value.args, *value.kwargs.values()]
    elif isinstance(value, Unread):
        value = value.inner
    elif isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, (list, tuple)) and any(is_transform(one) or holds_transform(one) for one in value)

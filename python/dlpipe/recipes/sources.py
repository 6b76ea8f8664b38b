"""Reads records of transforms (call.py) from live objects, from files that Albumentations saved, and from scripts."""

from __future__ import annotations

import ast
import enum
import json
import math
import re
import sys
import textwrap
from typing import Any

from dlpipe.errors import CorruptError, MisuseError
from dlpipe.recipes.call import CONTAINERS, Call, Unread, fits, is_number, library_of, parameters_of
from dlpipe.recipes.convert import holds_transform, is_class, is_transform
from dlpipe.recipes.rules import NO_OPS, RULES


# ---- live objects and saved files


def _plain(value):
    """Converts an attribute to a record's value."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, dict):
        return {key.__name__ if isinstance(key, type) else key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):  # NumPy's and torch's; float32 values keep only their own digits
        listed = value.tolist()
        listed = listed if isinstance(listed, list) else [listed]
        listed = [float(f"{one:.7g}") if isinstance(one, float) and str(value.dtype).endswith("32") else one for one in listed]
        return listed if value.ndim else listed[0]
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    return record(value) if library_of(type(value)) else str(value)


def _attributes(one, names, others=()):
    others = dict(others)
    return {name: _plain(getattr(one, others.get(name, name))) for name in names if hasattr(one, others.get(name, name))}


def _of_albumentations(one):
    name = type(one).__name__
    if name in CONTAINERS:
        boxes = one.processors.get("bboxes") if name.endswith("Compose") and one.main_compose else None  # the outermost's
        kwargs = _attributes(one, ("p", "n", "replace"))
        if boxes is not None:
            kwargs["bbox_params"] = _attributes(boxes.params, ("min_visibility", "min_width", "min_height", "min_area",
                                                              "max_accept_ratio", "check_each_transform"))  # fmt: skip
        return Call("albumentations", name, kwargs={**kwargs, "transforms": records(one.transforms)})
    try:
        return saved(one.to_dict()["transform"])
    except Exception:  # it can't be saved, such as Lambda
        return Call("albumentations", name)


def _of_timm(one):
    """timm's transforms that were made from a configuration string; each op holds the string's numbers."""
    name = type(one).__name__
    if name == "RandomErasing":
        kwargs = _attributes(one, ("probability", "min_area", "max_area", "mode", "max_count"))
        return Call("timm", name, kwargs={**kwargs, "min_aspect": math.exp(one.log_aspect_ratio[0]),
                                          "max_aspect": math.exp(one.log_aspect_ratio[1])})  # fmt: skip
    if name not in ("RandAugment", "AutoAugment", "AugMixAugment"):
        return Call("timm", name, kwargs=_attributes(one, parameters_of(RULES["timm"][name])[0]) if name in RULES["timm"] else {})
    op = one.policy[0][0] if name == "AutoAugment" else one.ops[0]
    if name == "RandAugment":
        config = f"rand-m{op.magnitude}-n{one.num_layers}-p{op.prob}"
    elif name == "AutoAugment":
        config = "3a" if len(one.policy) == 3 else "original"
    else:
        config = f"augmix-m{op.magnitude}-w{one.width}{f'-d{one.depth}' if one.depth > 0 else ''}-a{one.alpha}"
    return Call("timm", "rand_augment_transform", args=[config, {"img_mean": _plain(op.kwargs["fillcolor"])}])


def record(one):
    """The record of a live object. For objects of other libraries it names where they come from."""
    kind = type(one)
    library, name = library_of(kind), kind.__name__
    if isinstance(one, (list, tuple)):
        return Call("torch", "Sequential", args=[records(one)])
    if library == "albumentations":
        return _of_albumentations(one)
    if library == "timm":
        return _of_timm(one)
    if library == "kornia" and (getattr(one, "random_apply", False) or (name != "Normalize" and getattr(one, "same_on_batch", False))):
        return Call(library, f"{name} with random_apply or same_on_batch")
    if library == "kornia" and name == "Normalize":
        return Call(library, name, kwargs={**_attributes(one, ("p",)), "mean": _plain(one.flags["mean"]), "std": _plain(one.flags["std"])})
    if name in RULES.get(library, {}):
        names = parameters_of(RULES[library][name])[0]
        kwargs = _attributes(one, names, {"sampler_options": "options"})
        if name in CONTAINERS:
            kwargs["transforms"] = records(one.transforms if hasattr(one, "transforms") else one.children())
        if name == "RandomErasing" and one.value is None:
            kwargs["value"] = "random"
        return Call(library, name, kwargs=kwargs)
    if library:
        return Call(library, name)
    whose = one if hasattr(one, "__qualname__") else kind
    shown = f"Function {one.__name__}" if whose is one else name if name[:1].isupper() else f"Object {name}"
    return Call("", shown, origin=f"{whose.__module__}.{whose.__qualname__}")


def records(all_):
    return [record(one) for one in all_]


def version_of(text):
    """(2, 0, 8) of "2.0.8"."""
    return tuple(int(part) for part in str(text).split(".")[:3] if part.isdigit())


def albumentations_version():
    """The version of the installed Albumentations."""
    module = sys.modules.get("albumentations")
    return version_of(module.__version__) if module else None


def saved(tree):
    """The record of one transform in Albumentations' saved tree."""
    path = tree.get("__class_fullname__") if isinstance(tree, dict) else None
    if not isinstance(path, str):
        raise CorruptError("a transform lacks its __class_fullname__")
    root, _, name = path.rpartition(".")
    kwargs = {key: value for key, value in tree.items() if key != "__class_fullname__"}
    if isinstance(kwargs.get("transforms"), list):
        kwargs["transforms"] = [saved(one) for one in kwargs["transforms"]]
    is_theirs = not root or root.split(".")[0] == "albumentations"
    return Call("albumentations" if is_theirs else "", name, kwargs=kwargs, origin=path)


def saved_recipe(text):
    """(record, version) of a file that albumentations.save wrote as JSON or YAML; None if the text is neither."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        tree = None
        if '"__class_fullname__"' in text:  # perhaps truncated
            raise CorruptError(f"not valid JSON: {error}") from None
    if not isinstance(tree, dict):
        if "__class_fullname__: " not in text:
            return None
        tree = _yaml(text)
    if isinstance(tree.get("cells"), list):
        raise CorruptError("this is a notebook; convert it with `jupyter nbconvert --to script` and give the program")
    if not isinstance(tree.get("transform"), dict):
        raise CorruptError("it has no 'transform'; save it with albumentations.save")
    return saved(tree["transform"]), version_of(tree.get("__version__", "2"))


def _yaml(text):
    try:
        import yaml
    except ImportError:
        raise CorruptError("reading YAML needs PyYAML: python -m pip install pyyaml; or save it with "
                           "albumentations.save(..., data_format='json')") from None  # fmt: skip
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CorruptError(f"not valid YAML: {' '.join(str(error).split())}") from None
    return tree if isinstance(tree, dict) else {}


# ---- scripts, read with `ast`


# Limits the size of values: a program may build lists of lists that double with every line.
_MOST = 5000
_MOST_BYTES = 4 << 20
_BLOCK, _PLAIN, _FUNCTION, _CLASS = range(4)
#: Meanings of names without an import, for code that was pasted from a program.
_USUAL = {"T": "torchvision", "transforms": "torchvision", "v2": "torchvision", "tv": "torchvision", "A": "albumentations",
          "alb": "albumentations", "albu": "albumentations", "nn": "torch.nn", "K": "kornia"} | {one: one for one in RULES}  # fmt: skip
_FUNCTIONS = {"int": int, "float": float, "abs": abs, "round": round, "min": min, "max": max, "math.floor": math.floor,
              "math.ceil": math.ceil, "math.sqrt": math.sqrt}  # fmt: skip
_OPERATORS = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.Div: lambda a, b: a / b,
              ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b,
              ast.Pow: lambda a, b: a**b if abs(b) * math.log2(abs(a) + 2) < 64 else None}  # fmt: skip


class _Known:
    """What is known about a name. `module`: it is a module, or comes from one; `own`: it is a class or function of the program."""

    def __init__(self, value=None, node=None, module="", own="", parameter_of="", recipes=(), notes=(), size=1):
        self.value, self.node, self.module, self.own, self.parameter_of = value, node, module, own, parameter_of
        self.recipes, self.notes, self.size, self.blocks, self.other_lines = list(recipes), list(notes), size, 0, []


class _Scope:
    def __init__(self, kind, number, name):
        self.kind, self.number, self.name, self.values = kind, number, name, {}


class _Found:
    def __init__(self, path, value, line, notes=(), is_bare=False):
        self.path, self.value, self.line, self.notes, self.is_bare = path, value, line, list(notes), is_bare
        self.is_used, self.name = False, ""


def _dotted(node):
    """"a.b.c" for a name with attributes; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    before = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{before}.{node.attr}" if before else ""


def _computed(function, values):
    """The number that an arithmetic expression of numbers evaluates to; None for anything else, and for numbers too large for a double."""
    try:
        made = function(*values)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return made if is_number(made) and (isinstance(made, float) or abs(made) < 1 << 53) else None


def _children(node):
    """The parts of an expression, each with its key: an argument's name or a dictionary's key."""
    if isinstance(node, ast.Call):
        # T.Resize(256)(image) applies a transform and is not a recipe; Compose([...])(image) is still a recipe
        inner = node.func if isinstance(node.func, ast.Call) else None
        is_compose = inner is not None and _dotted(inner.func).rpartition(".")[2] in ("Compose", "ReplayCompose")
        return ([("", inner)] if is_compose else []) + [("", one) for one in node.args] + [
            (one.arg or "", one.value) for one in node.keywords]  # fmt: skip
    if isinstance(node, ast.Dict):
        return [(_key(key), value) for key, value in zip(node.keys, node.values)]
    return [("", one) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]


def _key(node):
    return "" if node is None else str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


class _Reader:
    def __init__(self, tree, has_lines):
        self.has_lines, self.found = has_lines, []
        self.scopes, self.blocks, self.stars = [_Scope(_FUNCTION, 0, "")], 0, []
        self.used, self.notes, self.size = set(), [], 0
        # The library of a class that is named without a library, if only one library has it.
        names = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        guessed = [library for library in RULES if library != "kornia"]
        owners = [[library for library in guessed if name in RULES[library]] for name in names]
        only = {one[0] for one in owners if len(one) == 1}
        self.likely = sorted(guessed, key=lambda one: only != {one})

    # names

    def find(self, name):
        own = re.sub(r"^(self|cls)\.", "", name)
        return next((scope.values[own] for scope in reversed(self.scopes) if own in scope.values), None)

    def set(self, name, known):
        own = re.sub(r"^(self|cls)\.", "", name)
        kinds = (_CLASS,) if own != name else (_FUNCTION, _CLASS)
        scope = next((scope for scope in reversed(self.scopes) if scope.kind in kinds), self.scopes[0])
        former, known.blocks = scope.values.get(own), self.blocks
        if former is not None and former.node is not None and self.is_conditional(former):
            known.other_lines = [*former.other_lines, former.node.lineno]
        scope.values[own] = known

    def is_conditional(self, known):
        """Whether the current statement is in a block that may not run and that began after `known` got its name."""
        return any(scope.kind == _BLOCK and scope.number > known.blocks for scope in self.scopes)

    def path(self):
        return [scope.name for scope in self.scopes if scope.name]

    # values

    def evaluated(self, node):
        """A value, the recipes that it uses, and the notes on how it was made."""
        self.used, self.notes, self.size = set(), [], 0
        return self.value(node), self.used, self.notes

    def unread(self, node, inner=()):
        return Unread(lambda: ast.unparse(node), self.line(node), inner, _dotted(node))

    def line(self, node):
        return node.lineno if self.has_lines else None

    def value(self, node):
        self.size += 1
        if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (str, int, float))):
            return node.value
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return self.elements(node.elts)
        if isinstance(node, ast.Dict):
            return {_key(key): self.value(value) for key, value in zip(node.keys, node.values)}
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self.named(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        values = [self.value(one) for _, one in _children(node)]
        made = None
        if isinstance(node, ast.BinOp):
            left, right = values
            if is_number(left) and is_number(right):
                made = _computed(_OPERATORS.get(type(node.op)), values)
            elif isinstance(left, list) and isinstance(right, list) and isinstance(node.op, ast.Add):
                made = left + right
            elif isinstance(left, list) and isinstance(right, int) and isinstance(node.op, ast.Mult) and right <= 4:
                made = left * right
        elif isinstance(node, ast.UnaryOp) and is_number(values[0]):
            made = {ast.USub: -values[0], ast.UAdd: values[0]}.get(type(node.op))
        return self.unread(node, values) if made is None else made

    def elements(self, nodes):
        made: list[tuple[ast.AST, Any]] = []
        for node in nodes:
            inner = self.value(node.value) if isinstance(node, ast.Starred) else None
            if isinstance(inner, list) and len(made) + len(inner) <= _MOST:
                made += [(node, one) for one in inner]
            else:
                made.append((node, self.value(node) if inner is None else self.unread(node, [inner])))
        is_of_transforms = any(is_transform(one) for _, one in made)
        return [self.unread(node, [one]) if is_of_transforms and isinstance(one, Call) and not is_class(one) else one
                for node, one in made]  # fmt: skip

    def named(self, node):
        name = _dotted(node)
        known = self.find(name) if name else None
        if known is None or known.module or known.own or known.node is None:
            return self.unread(node, [] if name else [self.value(one) for _, one in _children(node)])
        self.size += known.size
        if self.size > _MOST:
            return self.unread(node)
        self.used.update(known.recipes)
        said = list(known.notes)
        if known.parameter_of:
            said.insert(0, f"{name} is {ast.unparse(known.node)}, its default in {known.parameter_of}")
        said += [f"{name} has the value from line {known.node.lineno}; depending on a condition it may have the one from line {line}"
                 for line in known.other_lines]  # fmt: skip
        self.notes += [one for one in said if one not in self.notes]
        return known.value

    def whose(self, name, call):
        """(library, class, origin) of a call's name. The origin names where a class of no known library comes from."""
        root, _, rest = name.partition(".")
        known = self.find(root)
        for _ in range(50):  # Normalize = T.Normalize
            if known is None or known.node is None or not _dotted(known.node):
                break
            name = ".".join(filter(None, (_dotted(known.node), rest)))
            root, _, rest = name.partition(".")
            known = self.find(root)
        last = name.rpartition(".")[2]
        if known is not None and known.own:
            return "", last, f"the script's own {known.own}"
        if known is not None and known.module:
            path = ".".join(filter(None, (known.module, rest)))
        elif known is not None:
            return "", last, f"from {root}, a value that the script defines"
        elif rest:
            path = ".".join((_USUAL.get(root, root), rest))
        else:
            starred = [one.split(".")[0] for one in self.stars]
            libraries = [one for one in self.likely if last in RULES[one] and (one in starred or not starred)]
            if last == "Sequential" and not starred:
                libraries = ["albumentations" if call.args and isinstance(call.args[0], list) else "torch"]
            library = next((one for one in libraries if fits(call, RULES[one][last])), libraries[0] if libraries else "")
            is_foreign = starred and not library and any(last in rules for rules in RULES.values())
            return library, last, f"possibly from {self.stars[-1]}" if is_foreign else ""
        root = path.split(".")[0]
        is_library = root in RULES and (root != "torch" or path.startswith("torch.nn."))
        known_elsewhere = any(last in rules for rules in RULES.values())
        return root if is_library else "", path.rpartition(".")[2], "" if is_library or not known_elsewhere and known is None else path

    def call(self, node):
        name = _dotted(node.func)
        if not name:
            return self.unread(node, [self.value(one) for one in (node.func, *node.args)])
        args = self.elements(node.args)
        kwargs = {one.arg or "**": self.value(one.value) for one in node.keywords}
        if name in _FUNCTIONS and not kwargs and args and all(map(is_number, args)) and (len(args) == 1 or name in ("min", "max")):
            made = _computed(_FUNCTIONS[name] if len(args) > 1 or name not in ("min", "max") else float, args)
            return self.unread(node) if made is None else made
        if args and isinstance(args[0], Call) and args[0].name == "Keywords_":  # as in print()'s output of containers
            kwargs |= args.pop(0).kwargs
        library, last, origin = self.whose(name, Call("", name, args, kwargs))
        return Call(library, last, args, kwargs, self.line(node), origin, self.unread(node))

    # recipes

    def is_recipe(self, value):
        """A Compose is a recipe of its own; a list of other transforms is one recipe."""
        if not isinstance(value, list):
            return isinstance(value, Call) and is_transform(value) and value.name not in NO_OPS
        are_composes = all(isinstance(one, Call) and one.name in ("Compose", "ReplayCompose") for one in value)
        return any(map(is_transform, value)) and not are_composes

    def search(self, path, node):
        """Finds all recipes in an expression, whose name is `path`."""
        if isinstance(node, (ast.Call, ast.List, ast.Tuple, ast.BinOp)):
            value, used, notes = self.evaluated(node)
            if self.is_recipe(value):
                self.found.append(_Found(path, value, node.lineno, notes))
                self.use(used)
                return
        for key, one in _children(node):
            self.search([*path, key] if key else path, one)

    def use(self, recipes):
        for i in recipes:
            self.found[i].is_used = True

    def extend(self, name, node, more, is_one):
        """steps += [...], steps.append(...). In a block that may not run, the addition is recorded as Unread."""
        known = self.find(name)
        if known is None or not isinstance(known.value, list):
            return
        added, used, notes = self.evaluated(more)
        is_conditional = self.is_conditional(known)
        if is_conditional or not (is_one or isinstance(added, list)):
            why = " under a condition" if is_conditional else ""
            added = [Unread(f"{ast.unparse(more)}, which is added to {name}{why}", self.line(node))]
        elif is_one:
            added = [added]
        self.use(used)
        known.notes += [] if is_conditional else notes
        known.value = known.value + added
        own = next((i for i in known.recipes if self.found[i].path[-1:] == [name.rpartition(".")[2]]), None)
        if own is not None:
            self.found[own].value = known.value
        elif any(map(is_transform, known.value)):
            known.recipes.append(len(self.found))
            self.found.append(_Found([*self.path(), name.rpartition(".")[2]], known.value, known.node.lineno))
        known.recipes += used

    def alone(self, node):
        """A statement that is an expression."""
        if isinstance(node, ast.Tuple):
            for one in node.elts:
                self.alone(one)
            return
        name, _, method = (_dotted(node.func) if isinstance(node, ast.Call) else "").rpartition(".")
        if method in ("append", "extend", "insert") and node.args and self.find(name) is not None:
            self.extend(name, node, node.args[-1], method == "append")
            return
        value, used, notes = self.evaluated(node)
        is_known = is_transform(value)
        if not is_known and (not isinstance(value, Call) or not is_class(value) or holds_transform(value)):
            self.search(self.path(), node)
            return
        self.use(used)
        if not self.found or not self.found[-1].is_bare:
            self.found.append(_Found(self.path(), [], node.lineno, is_bare=True))
        self.found[-1].value += value if isinstance(value, list) else [value]
        self.found[-1].notes += notes

    def finish(self):
        """Drops expression statements that are not transforms, if there are other recipes."""
        known = [one for one in self.found if not one.is_bare or any(map(is_transform, one.value))]
        return known or self.found

    # statements

    def inside(self, kind, name, statements):
        self.blocks += 1
        self.scopes.append(_Scope(kind, self.blocks, name))
        for one in statements:
            self.statement(one)
        self.scopes.pop()

    def statement(self, node):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.function(node)
        elif isinstance(node, ast.ClassDef):
            self.set(node.name, _Known(own="class"))
            self.inside(_CLASS, node.name, node.body)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self.imported(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            if node.value is not None:
                self.assigned(node.targets if isinstance(node, ast.Assign) else [node.target], node.value)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.op, ast.Add) and _dotted(node.target):
                self.extend(_dotted(node.target), node, node.value, False)
        elif isinstance(node, ast.Return) or isinstance(getattr(node, "value", None), (ast.Yield, ast.YieldFrom)):
            inner = node.value if isinstance(node, ast.Return) else node.value.value
            for one in inner.elts if isinstance(inner, ast.Tuple) else [inner] if inner is not None else []:
                self.search(self.path(), one)
        elif isinstance(node, ast.Expr):
            self.alone(node.value)
        else:
            certain = isinstance(node, (ast.With, ast.AsyncWith, ast.Try))
            for part in ("body", "orelse", "finalbody"):
                self.inside(_PLAIN if certain else _BLOCK, "", getattr(node, part, []))
            for one in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                self.inside(_BLOCK, "", one.body)

    def function(self, node):
        defaults = [*[None] * (len(node.args.posonlyargs + node.args.args) - len(node.args.defaults)), *node.args.defaults]
        names = [*zip(node.args.posonlyargs + node.args.args, defaults), *zip(node.args.kwonlyargs, node.args.kw_defaults)]
        name = "" if node.name == "__init__" else node.name
        of = name or next((scope.name for scope in reversed(self.scopes) if scope.name), node.name)
        parameters = [(one.arg, default, self.evaluated(default)[0] if default is not None else None) for one, default in names]
        self.set(node.name, _Known(own="function"))
        self.blocks += 1
        self.scopes.append(_Scope(_FUNCTION, self.blocks, name))
        for parameter, default, value in parameters:
            self.set(parameter, _Known(value, default, parameter_of=of if default is not None else ""))
        for one in node.body:
            self.statement(one)
        self.scopes.pop()

    def imported(self, node):
        for one in node.names:
            if isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                if one.name == "*":
                    self.stars.append(module)
                else:
                    self.set(one.asname or one.name, _Known(module=f"{module}.{one.name}".replace("..", ".") if module else one.name))
            else:
                self.set(one.asname or one.name.split(".")[0], _Known(module=one.name if one.asname else one.name.split(".")[0]))

    def assigned(self, targets, value):
        """a = b = VALUE; a, b = VALUE, VALUE; a["key"] = VALUE."""
        is_each = isinstance(targets[0], ast.Tuple) and isinstance(value, ast.Tuple) and len(targets[0].elts) == len(value.elts)
        values = value.elts if is_each else [value]
        for i, one in enumerate(values):
            named = [target.elts[i] if is_each and isinstance(target, ast.Tuple) else target for target in targets]
            first, path = len(self.found), self.path()
            self.search(path + self.names_of(named[0]), one)
            for target in named:
                if _dotted(target):
                    made, used, notes = self.evaluated(one)
                    recipes = [*used, *range(first, len(self.found))]
                    self.set(_dotted(target), _Known(made, one, recipes=recipes, notes=notes, size=self.size))

    def names_of(self, target):
        if isinstance(target, ast.Subscript):
            return [*self.names_of(target.value), _key(target.slice)]
        return [_dotted(target).rpartition(".")[2]] if _dotted(target) else []


def _name_all(found):
    """Names each recipe by the shortest end of its path that is unique, else adds its line."""
    full = [".".join(one.path) for one in found]
    for one, name in zip(found, full):
        one.name = name
        if full.count(name) > 1 or (not name and len(found) > 1):
            one.name = f"{name}:{one.line}"
            continue
        for at in range(len(one.path) - 1, -1, -1):
            shorter = ".".join(one.path[at:])
            if sum(other == shorter or other.endswith("." + shorter) for other in full) == 1:
                one.name = shorter
                break


def _parsed(text):
    """The program's syntax tree. The output of print(transform), which has no commas at the ends of lines, is accepted, too."""
    if len(text) > _MOST_BYTES:
        raise CorruptError(f"it has {len(text)} characters; the limit is {_MOST_BYTES}")
    try:
        return ast.parse(textwrap.dedent(text))
    except SyntaxError as error:
        printed = re.sub(r"^(\s*)(p=[^\n,()]*)$", r"\1Keywords_(\2)", re.sub(r"^(\s*)\(\d+\): ", r"\1", text, flags=re.M), flags=re.M)
        printed = re.sub(r"<[\w.]+: '([\w-]+)'>", r"'\1'", printed)
        printed = re.sub(r"(?<=[)\]])[ \t]*\n(?=\s*\w)", ",\n", printed)
        try:
            return ast.parse(textwrap.dedent(printed))
        except SyntaxError:
            said = error.msg if "Perhaps you forgot" not in error.msg else "invalid syntax"
            raise CorruptError(f"not a Python program: {said} in line {error.lineno}") from None


def script_recipes(text, recipe=""):
    """All recipes that no other recipe uses, in the program's order. `recipe`: return only the one with this name, which others may
    use, or the one that the function of this name returns."""
    try:
        tree = _parsed(text)
        reader = _Reader(tree, "\n" in text.strip())
        for statement in tree.body:
            reader.statement(statement)
        found = reader.finish()
    except (RecursionError, MemoryError, ValueError) as error:
        if isinstance(error, CorruptError):
            raise
        raise CorruptError("can't be read as a Python program: " + (str(error) or "brackets are nested too deeply")) from None
    _name_all(found)
    all_ = [one for one in found if not one.is_used]
    if not all_:
        raise CorruptError("it has no transforms: neither Compose([...]) nor a transform of torchvision or Albumentations that does more "
                           "than make a tensor; give the program that has them, or the output of print(transform)")  # fmt: skip
    if not recipe:
        return all_
    exact = [one for one in found if recipe in (one.name, ".".join(one.path))]
    for fitting in (exact, [one for one in found if recipe in one.path]):
        if len(fitting) == 1:
            return fitting
    names = ", ".join(one.name for one in all_)
    raise MisuseError(f"there is no recipe {recipe}" + (f"; there are {names}" if names.strip(", ") else "; none has a name"))

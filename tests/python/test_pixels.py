"""Pixels as normalised numbers, mixed samples, and the user's own steps."""

import ctypes
import time

import numpy as np
import pytest
from conftest import side_by_side

import dlpipe

CROP = "rrc(24) hflip"
TOLERANCE = {"f32": 2e-6, "f16": 2e-3, "bf16": 2e-2}  # rounding of numbers below 4 to 23, 10 and 7 bits


def loader_of(data, **options):
    return dlpipe.Loader(data, **{"as_": "numpy", "augment": CROP, "batch": 32, "seed": 1, **options})


@pytest.mark.parametrize("dtype, kind", [("f32", np.float32), ("f16", np.float16)])
@pytest.mark.parametrize("given", [None, ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
def test_numbers_are_the_normalised_bytes(train, dtype, kind, given):
    options = {} if given is None else {"mean": given[0], "std": given[1]}
    numbers = loader_of(train, dtype=dtype, **options)
    mean, std = given or numbers.mean_std
    assert numbers.mean_std == loader_of(train).mean_std
    for batch, bytes_ in side_by_side(numbers, loader_of(train)):
        assert batch.image.dtype == kind
        assert batch.sample_ids.tolist() == bytes_.sample_ids.tolist()
        expected = (bytes_.image / 255.0 - np.array(mean)) / np.array(std)
        np.testing.assert_allclose(batch.image, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


# As convert-augment writes them. They were bytes once, without a word.
@pytest.mark.parametrize("options, kind", [
    ({"augment": CROP + " normalize(0.5,0.25)"}, np.float32),
    ({"augment": CROP + " normalize(0.5,0.25) cast(f16)"}, np.float16),
    ({"augment": CROP + " normalize(0.5,0.25)", "dtype": "f16"}, np.float16),
    ({"mean": [0.5] * 3, "std": [0.25] * 3}, np.float32),
])
def test_who_normalises_gets_numbers(train, options, kind):
    for batch, bytes_ in side_by_side(loader_of(train, **options), loader_of(train)):
        assert batch.image.dtype == kind
        np.testing.assert_allclose(batch.image, (bytes_.image / 255.0 - 0.5) / 0.25, atol=4e-3, rtol=4e-3)


def test_a_cast_alone_gives_the_datasets_own_normalisation(train):
    for batch, other in side_by_side(loader_of(train, augment=CROP + " cast(f32)"), loader_of(train, dtype="f32")):
        np.testing.assert_array_equal(batch.image, other.image)


def test_bf16_is_torchs(train):
    torch = pytest.importorskip("torch")
    numbers = loader_of(train, dtype="bf16", as_="torch", layout="NCHW")
    for batch, exact in side_by_side(numbers, loader_of(train, dtype="f32", as_="torch", layout="NCHW")):
        assert batch.image.dtype == torch.bfloat16
        assert batch.image.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(batch.image, exact.image.bfloat16())


def test_bf16_is_jaxs(train):
    jax = pytest.importorskip("jax")
    batch = next(iter(loader_of(train, dtype="bf16", as_="jax")))
    exact = next(iter(loader_of(train, dtype="f32", as_="jax")))
    assert batch.image.dtype == jax.numpy.bfloat16
    assert (batch.image == exact.image.astype(jax.numpy.bfloat16)).all()


def test_mixup_gives_pairs_of_labels_and_their_weight(train):
    plain = loader_of(train, dtype="f32")
    mixed = loader_of(train, dtype="f32", mixup=0.4)
    assert mixed.fields == ("image", "label", "partner_label", "lam")
    for batch, own in side_by_side(mixed, plain):
        images, labels, partners, lam = batch
        assert labels.tolist() == own.label.tolist()
        assert partners.dtype == np.int64 and lam.dtype == np.float32
        assert ((0 <= lam) & (lam <= 1)).all()
        # each is lam of itself and 1 - lam of one other sample of the batch
        for i in range(len(images)):
            rest = images[i] - lam[i] * own.image[i]
            candidates = [np.abs(rest - (1 - lam[i]) * other).max() for other in own.image]
            assert min(candidates) < 1e-4
            assert partners[i] in own.label[np.array(candidates) < 1e-4]


def test_cutmix_pastes_a_box(train):
    whole_boxes = 0
    for batch, own in side_by_side(loader_of(train, dtype="f32", cutmix=1.0), loader_of(train, dtype="f32")):
        for i, (image, lam) in enumerate(zip(batch.image, batch.lam)):
            differs = (image != own.image[i]).any(-1)
            assert differs.mean() <= 1 - lam + 1e-6
            if not differs.any():  # no box, or one of the same image
                continue
            rows, columns = np.flatnonzero(differs.any(1)), np.flatnonzero(differs.any(0))
            box = np.s_[rows[0]:rows[-1] + 1, columns[0]:columns[-1] + 1]
            assert differs[box].size <= (1 - lam) * differs.size + 1e-3
            partners = own.image[own.label == batch.partner_label[i]]
            assert any(np.array_equal(image[box], partner[box]) for partner in partners)
            whole_boxes += differs.mean() > 0.9 * (1 - lam)  # some pixels both images have
    assert whole_boxes > 250, "of 320 samples"


@pytest.mark.parametrize("options, text", [
    ({"dtype": "f64"}, "dtype can't be 'f64'; known: u8, f32, f16, bf16"),
    ({"dtype": "float"}, "dtype can't be 'float'; known: u8, f32, f16, bf16"),
    ({"augment": CROP + " cast(f64)"}, "dtype can't be 'f64'; known: f32, bf16, f16"),
    ({"dtype": "bf16"}, "NumPy has no bf16"),
    ({"mixup": 0.2}, "set dtype"),
    ({"mean": (0.5, 0.5, 0.5)}, "mean and std"),
    ({"mean": (0.5, 0.5), "std": (1, 1), "dtype": "f32"}, "normalize"),
    ({"mixup": -1, "dtype": "f32"}, "mixup -1"),
    ({"augment": CROP + " normalize(0.5,0.5)", "dtype": "u8"}, "ends in normalize, .* dtype is u8; leave one of them out"),
    ({"augment": CROP + " cast(f16)", "dtype": "f32"}, "ends in cast, which makes pixels f16, but dtype is f32"),
    ({"augment": CROP + " normalize(0.5,0.5)", "mean": [0.5] * 3, "std": [1] * 3}, "mean and std are given, too"),
])
def test_what_cannot_be_is_refused(train, options, text):
    with pytest.raises(ValueError, match=text):
        loader_of(train, **options)


def validation_of(data, **options):
    return loader_of(data, train=False, augment="resize(24x24)", **options)


def assert_normalised(loader, mean, std):
    for batch, bytes_ in side_by_side(loader, validation_of(loader.dataset.directory)):
        expected = (bytes_.image / 255.0 - np.array(mean)) / np.array(std)
        np.testing.assert_allclose(batch.image, expected, atol=TOLERANCE["f32"], rtol=TOLERANCE["f32"])


def test_validation_in_a_folder_of_splits_is_normalised_as_training_was(splits, caplog):
    training = loader_of(splits, dtype="f32")
    validation = validation_of(splits, dtype="f32")
    assert validation.mean_std != training.mean_std
    assert_normalised(validation, *training.mean_std)
    assert caplog.text == ""


def test_validation_by_its_own_mean_and_std_is_warned_of(splits, caplog):
    alone = validation_of(splits / "val", dtype="f32")
    assert_normalised(alone, *alone.mean_std)
    assert "val are normalised by its own mean and std" in caplog.text
    caplog.clear()
    given = validation_of(splits / "val", dtype="f32", mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    assert_normalised(given, (0.5,) * 3, (0.25,) * 3)
    validation_of(splits / "val")
    assert caplog.text == ""


# --- the user's own steps


def test_a_transform_is_a_stage_of_its_own(train):
    loader = loader_of(train, transform=lambda batch: (batch.image.astype(np.float32) / 255, batch.label, batch.path))
    plain = loader_of(train)
    for (images, labels, paths), batch in side_by_side(loader, plain):
        np.testing.assert_array_equal(images, batch.image.astype(np.float32) / 255)
        assert paths == batch.path
    stage = loader.stats()["stages"][-1]
    assert stage["name"] == "transform" and stage["samples"] == 320 and stage["busy_s"] > 0
    assert "transform" in loader.doctor()


def test_a_transform_that_raises_loses_nothing(train):
    """But the batch, which counts as given."""
    plain = [batch.image.copy() for batch in loader_of(train)]
    begun = []

    def fail_at_first(batch):
        begun.append(batch.label[0])
        if len(begun) == 1:
            raise RuntimeError("mine")
        return batch.image.copy()

    loader = loader_of(train, transform=fail_at_first)
    batches = iter(loader)
    with pytest.raises(RuntimeError, match="mine"):
        next(batches)
    assert loader.held == 0
    resumed = loader_of(train)
    resumed.load_state_dict(loader.state_dict())
    for rest in (list(batches), [batch.image.copy() for batch in resumed]):
        assert len(rest) == len(plain) - 1
        np.testing.assert_array_equal(rest, plain[1:])


def test_the_doctor_says_who_waits_for_whom_and_how_many_cores_it_takes(train):
    import re

    loader = loader_of(train, epochs=5, threads=2)
    assert "Nothing was measured" in loader.doctor()
    for _ in loader:
        pass
    said = loader.doctor(1000)
    for name in ("plan", "prefault", "reader", "decoder", "augmenter", "stager"):
        assert re.search(rf"^{name} +1,6", said, re.M), said
    assert re.search(r"^At [\d,]+ samples/s your loop waited for the loader [\d.]+% of the time, and a finished batch waited "
                     r"for your loop [\d.]+% of it\.$", said, re.M), said
    assert re.search(r"^1,000 samples/s need \d+\.\d\d cores for decoding and augmenting; this loader has 2 threads\.$", said, re.M)
    assert "most of the loader's work is in the" in said


def test_the_doctor_names_a_loop_that_limits(train):
    loader = loader_of(train, epochs=2)
    for _ in loader:
        time.sleep(0.03)
    assert "Your loop is the bottleneck. The loader could deliver" in loader.doctor(), loader.doctor()


def test_the_doctor_names_a_loader_that_limits(train):
    loader = loader_of(train, augment="resize(512x512) gaussian_blur rrc(224) hflip", epochs=1, threads=1)
    for _ in loader:
        pass
    assert "The loader is the bottleneck: give it more threads" in loader.doctor(), loader.doctor()


def test_paths_are_those_of_the_samples(train):
    classes = loader_of(train).classes
    for batch in loader_of(train):
        assert [path.split("/")[0] for path in batch.path] == [classes[label] for label in batch.label]
        data, offsets = batch.ragged("path")
        assert data.dtype == np.uint8 and offsets.dtype == np.int64 and len(offsets) == 33
        assert bytes(data[offsets[3]:offsets[4]]).decode() == batch.path[3]
        with pytest.raises(FileNotFoundError):
            batch.ragged("caption")
        break


@dlpipe.CFunction
def add_constant(pixels, height, width, channels, key, parameters):
    """A function of ctypes: slow, and holding the interpreter lock, but a C function pointer."""
    size = height * width * channels
    values = np.ctypeslib.as_array(ctypes.cast(pixels, ctypes.POINTER(ctypes.c_uint8)), (size,))
    values += np.uint8(ctypes.cast(parameters, ctypes.POINTER(ctypes.c_double))[0])


def test_a_c_function_is_an_op_of_the_expression(train):
    dlpipe.add_augmentation("add_constant", add_constant, parameters={"by": 1}, version=1)
    plain = loader_of(train)
    added = loader_of(train, augment=CROP + " add_constant(by=7)")
    for batch, own in side_by_side(added, plain):
        np.testing.assert_array_equal(batch.image, own.image + np.uint8(7))
    once = loader_of(train, augment=CROP + " add_constant").state_dict()["pipeline_id"]
    dlpipe.add_augmentation("add_constant", add_constant, parameters={"by": 1}, version=2)
    assert loader_of(train, augment=CROP + " add_constant").state_dict()["pipeline_id"] != once
    for name, options in (("rrc", {"version": 1}), ("a b", {"version": 1}), ("mine", {}), ("mine", {"version": 1, "parameters": {"p": 1}})):
        with pytest.raises(dlpipe.MisuseError):
            dlpipe.add_augmentation(name, add_constant, **options)


@pytest.mark.parametrize("options", [{}, {"version": 1}])
def test_a_python_function_is_no_augmentation(options):
    for function in (lambda pixels: 255 - pixels, np.invert, "negative", None):
        with pytest.raises(dlpipe.MisuseError, match=r"negative is a .*numba.cfunc.* or a ctypes function; .*transform="):
            dlpipe.add_augmentation("negative", function, **options)


UINT8, DOUBLE = ctypes.POINTER(ctypes.c_uint8), ctypes.POINTER(ctypes.c_double)
WHOLE = [ctypes.c_int64, ctypes.c_ssize_t, ctypes.c_longlong]


@pytest.mark.parametrize("answer, arguments, is_right", [
    (None, [UINT8, *WHOLE, ctypes.c_uint64, DOUBLE], True),
    (None, [np.ctypeslib.ndpointer(np.uint8), *WHOLE, ctypes.c_size_t, ctypes.c_void_p], True),
    (None, [DOUBLE, *WHOLE, ctypes.c_uint64, DOUBLE], False),
    (None, [UINT8, ctypes.c_int32, *WHOLE[1:], ctypes.c_uint64, DOUBLE], False),
    (None, [UINT8, ctypes.c_double, *WHOLE[1:], ctypes.c_uint64, DOUBLE], False),
    (None, [UINT8, *WHOLE, ctypes.c_uint64, ctypes.POINTER(ctypes.c_float)], False),
    (None, [np.ctypeslib.ndpointer(np.float32), *WHOLE, ctypes.c_uint64, DOUBLE], False),
    (None, [UINT8, *WHOLE], False),
    (ctypes.py_object, [UINT8, *WHOLE, ctypes.c_uint64, DOUBLE], False),
])  # fmt: skip
def test_a_c_function_that_is_declared_otherwise_is_no_augmentation(answer, arguments, is_right):
    function = ctypes.CFUNCTYPE(answer, *arguments)(lambda *values: None)
    of_library = ctypes.CDLL(None).memmove  # of a library, that says nothing of its arguments by itself
    dlpipe.add_augmentation("undeclared", of_library, version=str(arguments))
    of_library.argtypes, of_library.restype = arguments, answer
    for number, one in enumerate((function, of_library)):
        if is_right:
            dlpipe.add_augmentation(f"declared{number}", one, version=str(arguments))
        else:
            with pytest.raises(dlpipe.MisuseError, match="declared is declared to take .*AUGMENTATION_SIGNATURE"):
                dlpipe.add_augmentation("declared", one, version=1)


@pytest.mark.parametrize("signature", [
    "void(CPointer(float64), int64, int64, int64, uint64, CPointer(float64))",
    "void(CPointer(complex64), int64, int64, int64, uint64, CPointer(float64))",
    "void(CPointer(uint8), int32, int64, int64, uint64, CPointer(float64))",
    "void(CPointer(uint8), int64, int64, int64, uint64, CPointer(float32))",
    "int64(CPointer(uint8), int64, int64, int64, uint64, CPointer(float64))",
])  # fmt: skip
def test_a_numba_function_of_another_signature_is_no_augmentation(signature):
    numba = pytest.importorskip("numba")

    if signature.startswith("int64"):
        wrong = numba.cfunc(signature)(lambda pixels, height, width, channels, key, parameters: 0)
    else:
        wrong = numba.cfunc(signature)(lambda pixels, height, width, channels, key, parameters: None)
    with pytest.raises(dlpipe.MisuseError, match="wrong is declared to take"):
        dlpipe.add_augmentation("wrong", wrong)


def test_training_and_judging_know_added_functions(splits, tmp_path):
    dlpipe.add_augmentation("add_constant", add_constant, parameters={"by": 1}, version=1)
    options = {"model": "lenet", "augment": CROP + " add_constant(by=7)", "val_augment": "resize(24x24) add_constant(by=7)",
               "epochs": 1, "batch": 32, "seed": 3, "schedule": "constant"}  # fmt: skip
    answer = dlpipe.train(splits, out=tmp_path / "run", **options)
    plain = dlpipe.train(splits, out=tmp_path / "plain", **{**options, "augment": CROP})
    assert answer["steps"] == 10 and answer["loss"] != plain["loss"]
    assert dlpipe.evaluate(tmp_path / "run", splits)["samples"] == 80
    image = np.full((24, 24, 3), 50, np.uint8)
    added = dlpipe.Predictor(tmp_path / "run")
    without = dlpipe.Predictor(tmp_path / "run", val_augment="resize(24x24)")
    np.testing.assert_allclose(added(image), without(image + 7), rtol=0, atol=1e-6)
    assert dlpipe.train(resume=tmp_path / "run", epochs=2)["steps"] == 20


def test_a_numba_function_runs_on_all_threads_and_draws_from_its_key(train):
    numba = pytest.importorskip("numba")

    @numba.cfunc(dlpipe.AUGMENTATION_SIGNATURE)
    def noise(pixels, height, width, channels, key, parameters):
        state = key
        for i in range(height * width * channels):
            state = state * numba.uint64(6364136223846793005) + numba.uint64(1442695040888963407)
            pixels[i] = pixels[i] ^ numba.uint8((state >> numba.uint64(33)) & numba.uint64(int(parameters[0])))

    dlpipe.add_augmentation("noise", noise, parameters={"mask": 3})
    one = [batch.image.copy() for batch in loader_of(train, augment=CROP + " noise", threads=1)]
    other = [batch.image.copy() for batch in loader_of(train, augment=CROP + " noise(mask=3)", threads=3)]
    plain = [batch.image.copy() for batch in loader_of(train)]
    for a, b, c in side_by_side(one, other, plain):
        np.testing.assert_array_equal(a, b)
        assert (a != c).any() and ((a ^ c) <= 3).all()

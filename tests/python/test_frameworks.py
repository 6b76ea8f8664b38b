"""Batches as tensors of PyTorch and arrays of JAX, and in the loops of other people's programs. Each test runs where its
framework is installed."""

import gc
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest
from conftest import side_by_side

import dlpipe

CROP = "rrc(24) hflip"


def numpy_batches(data, **options):
    loader = dlpipe.Loader(data, **{"augment": CROP, "batch": 32, "seed": 1, "as_": "numpy", **options})
    return [(batch.image.copy(), batch.label.copy()) for batch in loader]


# --- torch


def test_torch_tensors_are_the_slots_memory(train):
    torch = pytest.importorskip("torch")
    loader = dlpipe.Loader(train, augment=CROP, batch=32, seed=1, as_="torch")
    places = set()
    for (images, labels), (image, label) in side_by_side(loader, numpy_batches(train)):
        assert images.dtype == torch.uint8 and labels.dtype == torch.int64
        assert images.shape == (32, 24, 24, 3)
        np.testing.assert_array_equal(images.numpy(), image)
        np.testing.assert_array_equal(labels.numpy(), label)
        places.add(images.data_ptr())
    assert len(places) == 3


def test_torch_is_the_default_where_it_is_imported(train):
    torch = pytest.importorskip("torch")
    assert isinstance(next(iter(dlpipe.Loader(train, augment=CROP))).image, torch.Tensor)


def test_nchw_is_torchs_channels_last(train):
    torch = pytest.importorskip("torch")
    loader = dlpipe.Loader(train, augment=CROP, batch=32, seed=1, layout="NCHW", as_="torch")
    for (images, _), (image, _) in side_by_side(loader, numpy_batches(train)):
        assert images.shape == (32, 3, 24, 24)
        assert images.is_contiguous(memory_format=torch.channels_last)
        np.testing.assert_array_equal(images.permute(0, 2, 3, 1).numpy(), image)


@pytest.mark.parametrize("views", [1, 2])
def test_weights_and_ids_are_tensors_as_the_fields(train, views):
    torch = pytest.importorskip("torch")
    options = {"augment": CROP, "batch": 32, "views": views, "train": False, "rank": 1, "world": 3, "limit": 91}
    loader = dlpipe.Loader(train, as_="torch", **options)
    for batch, same in side_by_side(loader, dlpipe.Loader(train, as_="numpy", **options)):
        assert batch.weight.dtype == torch.float32 and batch.sample_ids.dtype == torch.int64
        assert batch.weight.tolist() == same.weight.tolist() and batch.sample_ids.tolist() == same.sample_ids.tolist()
        batch.weight[:] = 7  # a copy
        assert batch.weight.tolist() == same.weight.tolist()


@pytest.mark.parametrize("view", [
    lambda batch: batch.image,
    lambda batch: batch.image[2:].flatten(1)[:, 5],
    lambda batch: batch.image.permute(0, 3, 1, 2)[0],
    lambda batch: batch.image.numpy()[1:],
    lambda batch: batch.image.untyped_storage(),
    lambda batch: batch.image.__dlpack__(),
], ids=range(6))
def test_any_view_of_a_tensor_keeps_its_slot(train, view):
    pytest.importorskip("torch")
    loader = dlpipe.Loader(train, augment=CROP, batch=32, epochs=-1, as_="torch")
    iterator = iter(loader)
    kept = view(next(iterator))
    gc.collect()
    assert loader.held == 1
    next(iterator)
    gc.collect()
    assert loader.held == 1
    del kept
    gc.collect()
    assert loader.held == 0


def test_torchs_copies_let_go_and_what_autograd_saved_holds_on(train):
    torch = pytest.importorskip("torch")
    loader = dlpipe.Loader(train, augment=CROP, batch=32, as_="torch")
    iterator = iter(loader)
    clone = next(iterator).image.clone()
    gc.collect()
    assert loader.held == 0
    weight = torch.ones(24, 24, 3, requires_grad=True)
    product = (weight * next(iterator).image).sum()
    gc.collect()
    assert loader.held == 1  # backward needs the images
    product.backward()
    del product
    gc.collect()
    assert loader.held == 0
    assert clone.shape == (32, 24, 24, 3)


def test_torch_dataloader_hands_the_batches_on(train):
    torch = pytest.importorskip("torch")

    class Batches(torch.utils.data.IterableDataset):
        def __init__(self, loader):
            self.loader = loader

        def __iter__(self):
            return iter(self.loader)

    loader = dlpipe.Loader(train, augment=CROP, batch=32, seed=1, as_="torch")
    wrapped = torch.utils.data.DataLoader(Batches(loader), batch_size=None, num_workers=0)
    count = 0
    for (images, labels), (image, label) in side_by_side(wrapped, numpy_batches(train)):
        np.testing.assert_array_equal(images.numpy(), image)
        np.testing.assert_array_equal(labels.numpy(), label)
        count += 1
    assert count == 10


def test_workers_of_torchs_dataloader_are_told_what_to_do(train):
    torch = pytest.importorskip("torch")

    class Batches(torch.utils.data.IterableDataset):
        def __init__(self, loader):
            self.loader = loader

        def __iter__(self):
            return iter(self.loader)

    loader = dlpipe.Loader(train, augment=CROP, batch=32, as_="torch")
    wrapped = torch.utils.data.DataLoader(Batches(loader), batch_size=None, num_workers=1,
                                          multiprocessing_context="fork")
    with pytest.raises(Exception, match="forked"):
        next(iter(wrapped))


def test_a_torch_loop_learns(train):
    """A user's own model, optimizer and loop, as they are."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    mean, std = (torch.tensor(value) for value in dlpipe.Loader(train, augment=CROP, as_="torch").mean_std)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.LazyLinear(10))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(6):
        for images, labels in dlpipe.Loader(train, augment="resize(24x24)", batch=32, layout="NCHW", as_="torch"):
            x = (images.float() / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)
            loss = torch.nn.functional.cross_entropy(model(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert np.mean(losses[-10:]) < np.mean(losses[:10])


def test_ranks_come_from_torch_distributed(train, tmp_path):
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("torch without torch.distributed")
    program = (
        "import sys, torch, dlpipe\n"
        "torch.distributed.init_process_group('gloo', init_method='file://' + sys.argv[2], rank=int(sys.argv[3]), world_size=2)\n"
        "loader = dlpipe.Loader(sys.argv[1], augment='rrc(24)', batch=16, seed=1)\n"
        "print([batch.sample_ids.tolist() for batch in loader])\n"
    )
    ranks = [subprocess.Popen([sys.executable, "-c", program, str(train), str(tmp_path / "store"), str(rank)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(2)]
    outputs = [rank.communicate(timeout=120) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    parts = [eval(output[0]) for output in outputs]
    whole = [batch.sample_ids.tolist()
             for batch in dlpipe.Loader(train, augment="rrc(24)", batch=32, seed=1, as_="numpy", rank=0, world=1)]
    assert [one + other for one, other in zip(*parts)] == whole


def guides_script(folder):
    """The script of docs/guide/python.md, as a file."""
    guide = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "python.md"
    part = guide.read_text().split("## From a DataLoader to a Loader")[1]
    script = folder / "train.py"
    script.write_text(part.split("```python\n")[1].split("```")[0])
    return script


def test_the_guides_script_learns_and_goes_on(splits, tmp_path):
    pytest.importorskip("torch")
    script = guides_script(tmp_path)

    def run(name, *prefix):
        return subprocess.run([*(prefix or [sys.executable]), str(script), str(splits), str(tmp_path / name)],
                              capture_output=True, text=True, timeout=300)

    whole = run("whole.pt")
    assert whole.returncode == 0, whole.stderr
    lines = whole.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 0", "epoch 1", "epoch 2"] and "of 80 right" in lines[0]
    again = run("whole.pt")  # from the checkpoint in the middle of the last epoch: the same end
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines() == lines[2:]
    ranks = run("ranks.pt", sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    assert ranks.returncode == 0, ranks.stderr
    assert ranks.stdout.count("epoch 2: ") == 1  # the first rank says it
    alone = run("ranks.pt")  # one process goes on with what two have saved
    assert alone.returncode == 0, alone.stderr
    assert alone.stdout.startswith("epoch 2: ")


# --- JAX


def test_jax_arrays_are_the_slots_memory(train):
    jax = pytest.importorskip("jax")
    loader = dlpipe.Loader(train, augment=CROP, batch=32, seed=1, as_="jax")
    places = set()
    for (images, labels), (image, label) in side_by_side(loader, numpy_batches(train)):
        assert isinstance(images, jax.Array) and images.dtype == np.uint8
        np.testing.assert_array_equal(np.asarray(images), image)
        np.testing.assert_array_equal(np.asarray(labels), label)
        places.add(images.unsafe_buffer_pointer())
    assert len(places) <= 4  # of three slots; one more where JAX frees late


def test_what_jax_computes_later_reads_the_right_batch(train):
    jax = pytest.importorskip("jax")
    slow = jax.jit(lambda x: (x.astype("int32") ** 2).sum() +
                   (0 * jax.numpy.linalg.det(jax.numpy.ones((300, 300)))).astype("int32"))
    sums = [slow(batch.image) for batch in dlpipe.Loader(train, augment=CROP, batch=32, seed=1, as_="jax")]
    expected = [int((image.astype(np.int64) ** 2).sum()) for image, _ in numpy_batches(train)]
    assert [int(one) for one in sums] == expected


def test_what_jax_narrows_is_said_once(tmp_path, caplog):
    jax = pytest.importorskip("jax")
    fields = {"image": "image", "label": "label", "tags": "labels", "class": "i64", "place": ("f64", (2,))}
    with dlpipe.Writer(tmp_path / "data", fields=fields) as writer:
        for i in range(4):
            writer.write(image=np.zeros((8, 8, 3), np.uint8), label=0, tags=[1], place=[0, i], **{"class": 2**40 + i})

    def warnings(**options):
        caplog.clear()
        for _ in dlpipe.Loader(tmp_path / "data", train=False, batch=2, augment="", **options):
            pass
        return [one.message for one in caplog.records if "JAX narrows" in one.message]

    (said,) = warnings(as_="jax")
    assert "of class (int64), place (float64), and" in said and "jax_enable_x64" in said
    assert warnings(as_="jax", fields=["image", "label", "tags"]) == warnings(as_="numpy") == []
    jax.config.update("jax_enable_x64", True)
    try:
        assert warnings(as_="jax") == []
    finally:
        jax.config.update("jax_enable_x64", False)


def test_a_kept_jax_array_keeps_its_slot(train):
    pytest.importorskip("jax")
    loader = dlpipe.Loader(train, augment=CROP, batch=32, as_="jax")
    iterator = iter(loader)
    kept = next(iterator).image
    gc.collect()
    assert loader.held == 1
    del kept
    gc.collect()
    assert loader.held == 0


# --- other people's loops


def lightning_model(torch, lightning):
    """One layer, trained; `seen` has the sum of the pixels of each batch."""

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(24 * 24 * 3, 10)
            self.samples = 0
            self.seen = []

        def training_step(self, batch, _):
            images, labels = batch
            self.samples += len(images)
            self.seen.append(int(images.long().sum()))
            return torch.nn.functional.cross_entropy(self.layer(images.flatten(1).float() / 255), labels)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    return Model()


def test_lightning(train, tmp_path):
    torch = pytest.importorskip("torch")
    lightning = pytest.importorskip("lightning")
    model = lightning_model(torch, lightning)
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path)
    trainer.fit(model, dlpipe.Loader(train, augment=CROP, batch=32, as_="torch"))
    assert model.samples == 640


def test_lightning_goes_on_in_mid_epoch(train, tmp_path):
    torch = pytest.importorskip("torch")
    lightning = pytest.importorskip("lightning")

    def fit(ckpt_path=None):
        saves = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=13, save_top_k=-1)
        trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, callbacks=[saves], enable_progress_bar=False,
                                    enable_model_summary=False, default_root_dir=tmp_path)  # fmt: skip
        model = lightning_model(torch, lightning)
        trainer.fit(model, dlpipe.Loader(train, augment=CROP, batch=32, seed=1, as_="torch"), ckpt_path=ckpt_path)
        return model.seen

    whole = fit()
    assert len(whole) == 20
    assert fit(tmp_path / "step=13.ckpt") == whole[13:]


def test_lightning_continues_after_an_epoch(train, tmp_path):
    """Its checkpoints at the end of an epoch: their loader states aren't used, only their epoch."""
    torch = pytest.importorskip("torch")
    lightning = pytest.importorskip("lightning")

    def fit(ckpt_path=None):
        saves = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, "{epoch}", save_top_k=-1)
        trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", logger=False, callbacks=[saves], enable_progress_bar=False,
                                    enable_model_summary=False, default_root_dir=tmp_path)  # fmt: skip
        model = lightning_model(torch, lightning)
        trainer.fit(model, dlpipe.Loader(train, augment=CROP, batch=32, seed=1, as_="torch"), ckpt_path=ckpt_path)
        return model.seen

    whole = fit()
    assert len(whole) == 30
    for epoch in (0, 1):
        assert fit(tmp_path / f"epoch={epoch}.ckpt") == whole[10 * (epoch + 1):]


def test_lightning_overfits_and_validates(train, tmp_path):
    """Where it looks for samplers that shuffle, and would replace them."""
    torch = pytest.importorskip("torch")
    lightning = pytest.importorskip("lightning")
    model = lightning_model(torch, lightning)
    model.validation_step = lambda batch, batch_idx: None
    options = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
               "enable_model_summary": False, "default_root_dir": tmp_path}  # fmt: skip
    trainer = lightning.Trainer(max_epochs=2, overfit_batches=2, **options)
    trainer.fit(model, dlpipe.Loader(train, augment=CROP, batch=32, as_="torch", shuffle=False),
                dlpipe.Loader(train, augment="center_crop(24)", batch=32, as_="torch", train=False))  # fmt: skip
    assert model.samples == 2 * 2 * 32


LIGHTNING_RANKS = """
import sys, torch, lightning, dlpipe

def sums(images):
    return images.long().sum((1, 2, 3)).tolist()

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(24 * 24 * 3, 10)
        self.seen, self.losses = [], []

    def loss(self, batch):
        return torch.nn.functional.cross_entropy(self.layer(batch[0].flatten(1).float() / 255), batch[1])

    def training_step(self, batch, _):
        self.seen += sums(batch[0])
        return self.loss(batch)

    def validation_step(self, batch, _):
        self.losses.append(self.loss(batch).item())
        self.log("val_loss", self.losses[-1], sync_dist=True, batch_size=len(batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)

if __name__ == "__main__":
    # before fit(), which makes the group of processes
    loader = dlpipe.Loader(sys.argv[1], augment="rrc(24) hflip", batch=32, seed=1)
    val = dlpipe.Loader(sys.argv[1], augment="center_crop(24)", batch=32, train=False, limit=65)
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_progress_bar=False,
                                enable_model_summary=False, enable_checkpointing=False, num_sanity_val_steps=0)
    model = Model()
    trainer.fit(model, loader, val)
    seen = [None, None]
    torch.distributed.all_gather_object(seen, model.seen)
    assert len(model.losses) == 2 and torch.isfinite(torch.tensor(model.losses)).all(), model.losses
    if trainer.global_rank == 0:
        whole = dlpipe.Loader(sys.argv[1], augment="rrc(24) hflip", batch=64, seed=1, rank=0, world=1)
        assert sorted(seen[0] + seen[1]) == sorted(sum((sums(batch.image) for batch in whole), []))
        assert trainer.callback_metrics["val_loss"].isfinite()
        print("each sample once")
"""


def test_lightnings_ranks_share_the_samples(train, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("lightning")
    (tmp_path / "ranks.py").write_text(LIGHTNING_RANKS)
    done = subprocess.run([sys.executable, "ranks.py", str(train)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "each sample once" in done.stdout


SPAWNED = """
import os, sys, torch, dlpipe

def main(rank, data, port):
    loader = dlpipe.Loader(data, augment="rrc(24) hflip", batch=32, seed=1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    seen = [None, None]
    torch.distributed.all_gather_object(seen, sum([batch.sample_ids.tolist() for batch in loader], []))
    assert sorted(seen[0] + seen[1]) == list(range(320)), seen
    if rank == 0: print("each sample once")

if __name__ == "__main__":
    torch.multiprocessing.spawn(main, sys.argv[1:], nprocs=2)
"""


def test_spawned_processes_that_open_before_they_form_a_group(train, tmp_path):
    pytest.importorskip("torch")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "spawned.py").write_text(SPAWNED)
    done = subprocess.run([sys.executable, "spawned.py", str(train), str(port)], cwd=tmp_path, capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "each sample once" in done.stdout


def test_accelerate(train):
    torch = pytest.importorskip("torch")
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    model, optimizer = torch.nn.Linear(24 * 24 * 3, 10), None
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    model, optimizer = accelerator.prepare(model, optimizer)
    for images, labels in dlpipe.Loader(train, augment=CROP, batch=32, as_="torch"):  # not prepared: it has its rank
        loss = torch.nn.functional.cross_entropy(model(images.flatten(1).float() / 255), labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()


def test_hugging_faces_trainer(train, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(24 * 24 * 3, 10)

        def forward(self, image, label):
            scores = self.layer(image.flatten(1).float() / 255)
            return {"loss": torch.nn.functional.cross_entropy(scores, label), "logits": scores}

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            loader = dlpipe.Loader(train, augment=CROP, batch=32, as_="torch", epochs=1)
            return torch.utils.data.DataLoader(Dicts(loader), batch_size=None)

    class Dicts(torch.utils.data.IterableDataset):
        def __init__(self, loader):
            self.loader = loader

        def __iter__(self):
            return (batch._asdict() for batch in self.loader)

        def __len__(self):
            return len(self.loader)

    arguments = transformers.TrainingArguments(str(tmp_path), max_steps=20, report_to=[], use_cpu=True,
                                               save_strategy="no", disable_tqdm=True)
    assert Trainer(Model(), arguments).train().global_step == 20

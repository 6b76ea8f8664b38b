// Every option of training: its name, its group, its help, the member it sets, the bounds of its value.
#include "dlpipe/engine/optim/schedule.h"
#include "dlpipe/pipeline/loader.h"
#include "dlpipe/run/config/config.h"
#include "dlpipe/run/config/enumerated.h"
#include "dlpipe/run/config/precision.h"

namespace dlpipe::run {

namespace {

constexpr bool kFree = true;
constexpr double kMany = 1e15;
constexpr double kMostAtOnce = 1024;  // threads, or slots, that a Loader takes

}  // namespace

std::span<const ConfigOption> config_options() {
  using C = TrainConfig;
  static const std::vector<ConfigOption> kOptions = {
      {"data", "data",
       "Dataset to train on (made by `dlpipe ingest`), or a folder of splits (its train); or pictures, as a "
       "folder by class or tar archives, which are linked first",
       &C::data},
      {"val", "data", "Dataset to validate on; default: the val of a folder of splits", &C::val},
      {"augment", "data",
       "Augmentations of training images, e.g. \"rrc(224) hflip\" (--help ops lists them); \"\": none; "
       "default: auto, by the sizes of images and model, which is printed",
       &C::augment},
      {"val-augment", "data",
       "The same for validation; default: resize and center_crop to the model's input size", &C::val_augment},
      {"mixup", "data",
       "Mixup: average each training image with another of its batch, and their losses in the same shares; "
       "each lambda is drawn from Beta(X, X); 0: off",
       &C::mixup, false, 0, 1e6},
      {"cutmix", "data",
       "CutMix: replace a box of each training image, 1 - lambda of its area, by that of another of its "
       "batch; with --mixup, half of the batches take the one and half the other; 0: off",
       &C::cutmix, false, 0, 1e6},
      {"batch", "data", "Samples per batch", &C::batch, false, 1, 1e7},
      {"limit", "data", "Train on N samples, a subset drawn by --seed from the whole dataset; -1: all",
       &C::limit, false, -1, kMany},
      {"max-bad", "data",
       "End the run when more than N samples can't be used; -1: 10, or 0.1 % of the samples where that is "
       "more",
       &C::max_bad, kFree, -1, kMany},
      {"max-pixels", "data", "Refuse to decode images with more pixels", &C::max_pixels, false, 1, kMany},
      {"slots", "data", "Batches in flight: how far the pipeline reads ahead", &C::slots, kFree, 1,
       kMostAtOnce},
      {"cache", "data",
       "For linked pictures. coefficients: JPEGs are kept in the run directory as coefficient records, too, "
       "which are written while the loader's threads would wait and read from the next epoch on. Batches "
       "stay the same",
       &C::cache, kFree, 0, 0, names_of(kCacheNames)},
      {"cache-size", "data",
       "The most that --cache may take, of all processes together, as 50GiB; default: what leaves 1 GiB of "
       "its "
       "disk free",
       &C::cache_size, kFree},

      {"model", "model",
       "Model by name (--help models lists them); default: the one that --init's weights are of", &C::model},
      {"init", "model",
       "Start from these weights: a run or checkpoint, a safetensors file (PyTorch's names), or, without "
       "--model, an ONNX file or a compiled model",
       &C::init},
      {"freeze", "model", "Don't train parameters whose names match, e.g. \"layer1.*\"", &C::freeze},
      {"reset-head", "model", "With --init: keep the classifier's fresh weights", &C::reset_head},
      {"checkpoint-activations", "model",
       "Modules whose names match run a second time in backward instead of keeping their activations, e.g. "
       "\"layer?.*\"",
       &C::checkpoint_activations, kFree},
      {"dtype", "model",
       "Precision of convolutions and matrix products; f16, with a loss scale as PyTorch's, on GPUs alone",
       &C::dtype, kFree, 0, 0, precision_names()},
      {"tf32", "model",
       "On CUDA: f32 products and convolutions may round their inputs to TF32 (10 bits), to use tensor cores",
       &C::tf32},
      {"device", "model",
       "Where to train: cpu, cuda (the first GPU, of several processes each its own; "
       "CUDA_VISIBLE_DEVICES says which), cuda:N",
       &C::device, kFree},
      {"graph", "model", "On a device: launch each step as one graph; auto: where it can be captured",
       &C::graph, kFree, 0, 0, names_of(kGraphNames)},
      {"compile", "model",
       "On the CPU: record what a step runs, and replay it from the third step on, to the same bits; what "
       "can't be replayed is named and runs as ever",
       &C::compile, kFree},
      {"decode", "model",
       "On a GPU: whether it (device) or the CPU (host) decodes stored coefficients, to the same pixels; "
       "auto: the GPU where it can",
       &C::decode, kFree, 0, 0, names_of(pipeline::kDecodeNames)},

      {"epochs", "optimisation", "Passes over the training data", &C::epochs, false, 0, 1e9},
      {"max-steps", "optimisation", "Stop after N steps, whatever --epochs says; -1: no limit", &C::max_steps,
       false, -1, kMany},
      {"accumulate", "optimisation", "Batches whose gradients are averaged into one step", &C::accumulate,
       false, 1, 1e6},
      {"grains", "optimisation",
       "Equal parts of each batch whose gradients are computed one by one and summed in a fixed order, a "
       "power of two. Any power of two of processes up to it computes the same run; 0: 1 in one process, in "
       "several 8, or as many as processes where these are more",
       &C::grains, false, 0, 1 << 20},
      {"sync-bn", "optimisation",
       "Batch norm takes its statistics over all grains of all processes, not over each grain", &C::sync_bn},
      {"compress", "optimisation",
       "bf16: gradients of grains and their sums are rounded to bf16, so that processes exchange half the "
       "bytes",
       &C::compress, false, 0, 0, names_of(kCompressNames)},
      {"exact", "optimisation",
       "off: several processes on GPUs sum their gradients by NCCL, without the host; the bits of a run then "
       "depend on the number of processes",
       &C::exact, false, 0, 0, names_of(kExactNames)},
      {"optimizer", "optimisation", "Optimizer by name (--help optimizers lists them)", &C::optimizer},
      {"lr", "optimisation", "Learning rate at its peak", &C::lr, false, 0, 1e6},
      {"momentum", "optimisation", "Momentum", &C::momentum, false, 0, 1},
      {"nesterov", "optimisation", "Nesterov's momentum", &C::nesterov},
      {"weight-decay", "optimisation", "Weight decay", &C::weight_decay, false, 0, 1e6},
      {"decoupled", "optimisation", "Weight decay apart from the gradient (SGDW)", &C::decoupled},
      {"decay-vectors", "optimisation", "Weight decay of biases and normalisation weights",
       &C::decay_vectors},
      {"lr-scale", "optimisation", "Multiply the rate of parameters whose names match, e.g. \"*.bn.bias=64\"",
       &C::lr_scale},
      {"wd-scale", "optimisation", "The same for their weight decay", &C::wd_scale},
      {"muon", "optimisation",
       "Matrices and filters to orthogonalise, e.g. \"group*.conv?.weight\"; the rest takes sgd's step",
       &C::muon},
      {"muon-momentum", "optimisation", "Momentum of what --muon names", &C::muon_momentum, false, 0, 1},
      {"muon-iterations", "optimisation", "Iterations of Newton and Schulz", &C::muon_iterations, false, 1,
       100},
      {"muon-normalize", "optimisation",
       "Keep what --muon names at a norm of sqrt(outputs), as before batch norm", &C::muon_normalize},
      {"beta1", "optimisation", "Decay of the first moment", &C::beta1, false, 0, 1},
      {"beta2", "optimisation", "Decay of the second moment", &C::beta2, false, 0, 1},
      {"epsilon", "optimisation", "Added to the root of the second moment", &C::epsilon, false, 0, 1},
      {"schedule", "optimisation", "Learning rate over the run", &C::schedule, false, 0, 0,
       engine::ScheduleRegistry::builtin().names()},
      {"warmup", "optimisation", "Epochs of linear warm-up", &C::warmup, false, 0, 1e9},
      {"warmup-start", "optimisation", "The warm-up (or one_cycle) begins at this share of the peak",
       &C::warmup_start, false, 0, 1},
      {"milestones", "optimisation", "Epochs after which the rate is multiplied by --gamma, as 30,60",
       &C::milestones},
      {"gamma", "optimisation", "Factor of the rate at each of --milestones", &C::gamma, false, 0, 1e6},
      {"final-ratio", "optimisation", "Rate at the end over the peak", &C::final_ratio, false, 0, 1},
      {"peak-at", "optimisation", "Share of the steps before the peak", &C::peak_at, false, 0, 1},
      {"clip", "optimisation", "Scale gradients to at most this L2 norm; 0: don't", &C::clip, false, 0, 1e9},
      {"ema", "optimisation",
       "Keep an exponential moving average of the weights with this decay, and validate it; 0: don't",
       &C::ema, false, 0, 1},
      {"loss", "optimisation", "Loss by name (--help losses lists them)", &C::loss},
      {"label-smoothing", "optimisation", "Share of the target spread over all classes", &C::label_smoothing,
       false, 0, 1},

      {"metrics", "judging", "What validation reports; the first one decides which checkpoint is best",
       &C::metrics},
      {"tta", "judging", "Test-time augmentation: validation averages over these views of a picture", &C::tta,
       false, 0, 0, names_of(kViewNames)},
      {"val-every", "judging", "Validate every 1epoch, 500steps, 10min, or never", &C::val_every},
      {"early-stop", "judging",
       "Stop after N validations without a better one (the last one of a run counts where it is due); 0: "
       "don't",
       &C::early_stop, false, 0, 1e9},
      {"on-nonfinite", "judging", "A loss or gradient that isn't finite ends the run, or skips the step",
       &C::on_nonfinite, false, 0, 0, names_of(kNonfiniteNames)},
      {"overfit-batch", "judging",
       "Smoke test: N steps on one batch, whose loss must fall to a tenth; 0: off", &C::overfit_batch, false,
       0, 1e9},

      {"out", "run", "Run directory; must not hold a run yet", &C::out},
      {"checkpoint-every", "run", "Save every 5min, 500steps, 1epoch, or never (the end always)",
       &C::checkpoint_every, kFree},
      {"keep", "run", "Latest checkpoints to keep, beside the best", &C::keep, kFree, 1, 1e6},
      {"receipt", "run",
       "params: batches_chain hashes record checksums and drawn parameters; pixels: the pixels as well",
       &C::receipt, false, 0, 0, names_of(kReceiptNames)},
      {"threads", "run", "Threads for everything; 0: what the process may use", &C::threads, kFree, 0,
       kMostAtOnce},
      {"kernels", "run",
       "measured: the fastest of several kernels, found at first use and kept for this machine; rules: "
       "built-in choices; auto: the environment's DLPIPE_KERNELS, else measured, on several machines rules",
       &C::kernels, false, 0, 0, names_of(kKernelsByNames)},
      {"isa", "run",
       "Instruction set of the CPU's kernels, for machines of different CPUs that compute one run; auto: the "
       "best that this one has",
       &C::isa, false, 0, 0, isa_choices()},
      {"memory", "run",
       "Refuse a run whose memory plan (batches, tensors and scratch) is above this, as 8GiB. It is no "
       "limit of the process: the program itself, the search for the fastest kernels and the dataset's "
       "pages come on top",
       &C::memory, kFree},
      {"seed", "run", "Seed of the weights, the order and every random draw", &C::seed, false, 0, 9.2e18},
      {"bucket-mb", "run",
       "With several processes: gradients travel in parts of so many MB while backward goes on",
       &C::bucket_mb, kFree, 0.001, 1e6},
      {"shard-optimizer", "run",
       "With several processes: each keeps the optimizer's state and the summed gradients of its share of "
       "the weights alone (ZeRO-2), and checkpoints are written by all; the weights' bits stay the same",
       &C::shard_optimizer, kFree},
      {"tensor-parallel", "run",
       "With several processes: every N of them compute the same samples, each with its part of a "
       "transformer's weights; sums are in another order than in one process, so the bits differ",
       &C::tensor_parallel, kFree, 1, 1 << 20},
      {"pipeline-parallel", "run",
       "With several processes: every N of them compute the same samples, each with some of the layers of a "
       "transformer or another model whose layers are one behind the other; grains go through these in turn "
       "(1F1B), so give several times as many --grains",
       &C::pipeline_parallel, kFree, 1, 1 << 20},
      {"peer-timeout", "run",
       "With several processes: seconds after which one that doesn't answer ends the run; more than the "
       "first takes "
       "to write a checkpoint",
       &C::peer_timeout, kFree, 0.1, 1e9},
  };
  return kOptions;
}

}  // namespace dlpipe::run

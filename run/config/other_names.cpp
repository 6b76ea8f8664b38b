#include "dlpipe/run/config/other_names.h"

#include <algorithm>
#include <cctype>

#include "dlpipe/base/text.h"
#include "dlpipe/run/config/config.h"

namespace dlpipe::run {

std::span<const OtherNames> other_names() {
  static const std::vector<OtherNames> kNames = {
      {"--threads",
       {"--jobs", "--workers"},
       {"num-workers", "nthreads", "num-threads", "n-jobs", "cpus", "cores", "processes", "procs", "j"}},
      {"--batch",
       {"--batch-size"},
       {"bs", "b", "minibatch", "batchsize", "train-batch-size", "per-device-batch-size"}},
      {"--lr", {"--learning-rate"}, {"learn-rate", "rate", "base-lr", "max-lr", "step-size"}},
      {"--weight-decay", {"--wd"}, {"l2", "decay", "regularization", "weight-decay-rate"}},
      {"--model", {"--arch"}, {"architecture", "net", "network", "backbone", "m", "a"}},
      {"--out",
       {"--output", "-o"},
       {"output-dir", "out-dir", "outdir", "save-dir", "save", "run-dir", "log-dir", "logdir", "exp-dir",
        "project", "dest", "destination"}},
      {"OUT", {"--out", "--output", "-o"}, {"output-dir", "out-dir", "outdir", "dest", "destination"}},
      {"DATA",
       {"--data"},
       {"dataset", "data-dir", "data-path", "datadir", "train-data", "train-dir", "train", "input", "root",
        "d"}},
      {"--val", {}, {"val-data", "val-dir", "valid", "validation", "valid-dir", "test", "test-data"}},
      {"--ckpt",
       {"--checkpoint", "--init"},
       {"checkpoint-path", "ckpt-path", "weights", "model-path", "resume", "load", "run", "pretrained"}},
      {"CKPT",
       {"--ckpt", "--checkpoint", "--init"},
       {"checkpoint-path", "ckpt-path", "weights", "model-path", "resume", "load", "run", "pretrained"}},
      {"--init",
       {},
       {"pretrained", "weights", "load", "finetune", "fine-tune", "initial-weights", "from", "checkpoint",
        "state-dict"}},
      {"--resume", {}, {"continue", "resume-from", "restart", "ckpt", "restore"}},
      {"--schedule", {}, {"lr-scheduler", "scheduler", "lr-schedule", "lr-policy", "sched"}},
      {"--optimizer", {}, {"opt", "optim", "optimiser"}},
      {"--epochs", {}, {"num-epochs", "n-epochs", "max-epochs", "epoch", "e", "num-train-epochs"}},
      {"--max-steps", {}, {"steps", "iterations", "iters", "num-steps", "max-iter", "max-iters"}},
      {"--warmup", {}, {"warmup-epochs", "warmup-steps", "warm-up", "warmup-ratio"}},
      {"--augment",
       {},
       {"augmentation", "augmentations", "aug", "transform", "transforms", "image-size", "img-size", "imgsz",
        "crop", "input-size", "size", "resize", "normalize"}},
      {"--size", {}, {"image-size", "img-size", "imgsz", "input-size", "resolution"}},
      {"--resize-max", {}, {"resize", "max-size", "image-size", "size"}},
      {"--split",
       {},
       {"val-split", "validation-split", "test-size", "val-fraction", "train-split", "splits"}},
      {"--accumulate",
       {},
       {"grad-accum", "gradient-accumulation-steps", "accumulation", "accum-steps", "accum", "update-freq"}},
      {"--epsilon", {}, {"eps", "adam-eps", "adam-epsilon"}},
      {"--clip",
       {},
       {"grad-clip", "clip-grad", "gradient-clip", "gradient-clipping", "clip-norm", "max-grad-norm",
        "gradient-clip-val"}},
      {"--label-smoothing", {}, {"smoothing", "smooth"}},
      {"--loss", {}, {"criterion", "loss-fn", "objective"}},
      {"--ema", {}, {"ema-decay", "model-ema"}},
      {"--val-every",
       {},
       {"eval-every", "val-interval", "eval-freq", "eval-interval", "eval-steps", "val-freq"}},
      {"--checkpoint-every",
       {},
       {"save-every", "save-freq", "save-interval", "save-steps", "checkpoint-interval"}},
      {"--keep", {}, {"save-total-limit", "keep-last", "max-checkpoints"}},
      {"--early-stop", {}, {"patience", "early-stopping"}},
      {"--limit",
       {},
       {"subset", "max-samples", "num-samples", "max-train-samples", "limit-train-batches", "n", "head"}},
      {"--top", {}, {"topk", "top-k", "k", "num-classes"}},
      {"--tokens", {}, {"max-tokens", "max-new-tokens", "length", "n"}},
      {"--prompt", {}, {"text", "start", "context", "p"}},
      {"--freeze", {}, {"freeze-backbone", "freeze-layers", "frozen"}},
      {"--device", {}, {"gpu", "gpus", "cuda", "use-cuda", "use-gpu", "accelerator"}, "cuda"},
      {"--device", {}, {"cpu", "no-cuda"}, "cpu"},
      {"--dtype",
       {},
       {"amp", "mixed-precision", "bf16", "precision", "autocast", "half", "bfloat16"},
       "bf16"},
      {"--dtype", {}, {"fp16", "float16"}, "f16"},
      {"--optimizer", {}, {"adam"}, "adam"},
      {"--optimizer", {}, {"adamw"}, "adamw"},
      {"--optimizer", {}, {"sgd"}, "sgd"},
      {"--seed", {}, {"random-seed", "manual-seed", "random-state", "s"}},
      {"--memory", {}, {"max-memory", "mem", "memory-limit", "ram"}},
      {"--checkpoint-activations", {}, {"gradient-checkpointing", "grad-checkpointing", "recompute"}, "'*'"},
      {"--config", {}, {"cfg", "config-file", "recipe", "yaml", "c"}},
      {"--help", {"-h"}, {}},
      {"--quiet", {}, {"q", "silent", "no-progress"}},
      {"--color", {}, {"colour", "colors"}},
      {"--color", {}, {"no-color", "no-colour"}, "never"},
      {"--json", {}, {"format", "output-format"}},
      {"--version", {}, {"v"}},
  };
  return kNames;
}

std::string plain_name(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string plain(name);
  std::transform(plain.begin(), plain.end(), plain.begin(),
                 [](unsigned char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(c)); });
  return plain;
}

std::string config_suggestion(std::string_view typed, bool is_off, std::string_view before) {
  constexpr std::string_view kNo = "no-";
  const std::string word = plain_name(typed);
  if (find_config_option(word) != nullptr)
    return concat("; it is called '", before, word, "'");  // weight_decay
  const std::string opposite = word.starts_with(kNo) ? word.substr(kNo.size()) : "";
  if (const ConfigOption* const option = find_config_option(opposite);
      option != nullptr && is_switch(*option))
    return concat("; it is called '", before, opposite, "', with the opposite value");
  for (const OtherNames& one : other_names()) {
    const std::string option = plain_name(one.name);
    if (find_config_option(option) == nullptr) continue;
    const auto is_typed = [&](const char* other) { return plain_name(other) == word; };
    if (std::ranges::any_of(one.aliases, is_typed)) return concat("; it is called '", before, option, "'");
    if (std::ranges::any_of(one.meanings, is_typed))
      return concat("; did you mean '", before, option,
                    *one.value == '\0' || is_off ? "'?" : concat("' with '", one.value, "'?"));
  }
  std::vector<std::string> names;
  for (const ConfigOption& option : config_options()) names.push_back(concat(before, option.name));
  return suggestion(concat(before, typed), names);
}

}  // namespace dlpipe::run

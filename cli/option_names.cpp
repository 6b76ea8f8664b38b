#include "dlpipe/cli/option_names.h"

#include <algorithm>
#include <cctype>

#include "dlpipe/base/text.h"

namespace dlpipe::cli {

namespace {

struct OptionName {
  const char* name;
  std::vector<const char*> aliases;   // accepted
  std::vector<const char*> meanings;  // answered by naming the option
  const char* value = "";             // what to give it then: "--gpu" means "--device cuda"
};

// A word may be meant for several options: the first that the command has is named.
const std::vector<OptionName>& table() {
  static const std::vector<OptionName> kNames = {
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

/// As the tables have it: "--Weight_Decay" is weight-decay.
std::string plain_name(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string plain(name);
  std::transform(plain.begin(), plain.end(), plain.begin(),
                 [](unsigned char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(c)); });
  return plain;
}

std::string did_you_mean(const OptionText& option, const char* value = "") {
  return concat("; did you mean '", option.has_twin() ? option.aliases.front() : option.name,
                *value == '\0' ? "" : " ", value, "'?");
}

}  // namespace

std::vector<std::string> aliases_of(std::string_view name) {
  for (const OptionName& one : table()) {
    if (name == one.name) return {one.aliases.begin(), one.aliases.end()};
  }
  return {};
}

std::vector<std::string> spelled_as_ours(std::vector<std::string> words) {
  // A parser of options takes one dash and several letters for several options, so these can't be aliases.
  for (std::string& word : words) {
    if (word == "--") break;
    if (word == "-np") word = "--np";
  }
  // `launch --np 2 train --data D`: what follows the command is the command's.
  const auto command = std::ranges::find(words, "train");
  const bool is_launch = !words.empty() && words.front() == "launch";
  if (is_launch && command != words.end() && std::find(words.begin(), command, "--") == command)
    words.insert(command, "--");
  return words;
}

std::string option_suggestion(std::string_view typed, const CommandText& command) {
  const std::string word = plain_name(typed);
  if (const OptionText* same = command.find(word); same != nullptr)
    return did_you_mean(*same);  // --weight_decay
  std::vector<std::string> names;
  for (const OptionText& option : command.options) {
    if (!option.is_word()) names.push_back(option.name);
    names.insert(names.end(), option.aliases.begin(), option.aliases.end());
  }
  for (const OptionName& one : table()) {
    const OptionText* const option = command.find(one.name);
    if (option != nullptr && std::find(one.meanings.begin(), one.meanings.end(), word) != one.meanings.end())
      return did_you_mean(*option, one.value);
  }
  const std::string near = nearest_name(concat("--", word), names);
  if (near.empty()) return "";
  return did_you_mean(*command.find(near));
}

}  // namespace dlpipe::cli

#include "run/config/other_names.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "run/config/config.h"

namespace dlpipe::run {

std::span<const OtherNames> other_names() {
  static const std::vector<OtherNames> kNames = {
      {"--threads", {"--jobs", "--workers"}},
      {"--batch", {"--batch-size"}},
      {"--lr", {"--learning-rate"}},
      {"--weight-decay", {"--wd"}},
      {"--model", {"--arch"}},
      {"--out", {"--output", "-o"}},
      {"OUT", {"--out", "--output", "-o"}},
      {"DATA", {"--data"}},
      {"--ckpt", {"--checkpoint", "--init"}},
      {"CKPT", {"--ckpt", "--checkpoint", "--init"}},
      {"--help", {"-h"}},
  };
  return kNames;
}

// Only names for which the edit distance does not find the intended option.
std::span<const ForeignName> foreign_names() {
  static constexpr ForeignName kNames[] = {
      {"num-workers", "--threads"},
      {"j", "--threads"},
      {"bs", "--batch"},
      {"dataset", "--data"},
      {"data-dir", "--data"},
      {"output-dir", "--out"},
      {"pretrained", "--init"},
      {"weights", "--init"},
      {"opt", "--optimizer"},
      {"lr-scheduler", "--schedule"},
      {"steps", "--max-steps"},
      {"img-size", "--size"},
      {"gradient-accumulation-steps", "--accumulate"},
      {"clip-grad", "--clip"},
      {"eps", "--epsilon"},
      {"patience", "--early-stop"},
      {"acc", "--metrics", "top1"},
      {"accuracy", "--metrics", "top1"},
      {"val-split", "--split"},
      {"gpu", "--device", "cuda"},
      {"amp", "--dtype", "bf16"},
      {"fp16", "--dtype", "f16"},
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
    const auto is_typed = [&](const char* alias) { return plain_name(alias) == word; };
    if (find_config_option(option) != nullptr && std::ranges::any_of(one.aliases, is_typed))
      return concat("; it is called '", before, option, "'");
  }
  for (const ForeignName& one : foreign_names()) {
    const std::string option = plain_name(one.option);
    if (word == one.typed && find_config_option(option) != nullptr)
      return concat("; did you mean '", before, option,
                    *one.value == '\0' || is_off ? "'?" : concat("' with '", one.value, "'?"));
  }
  std::vector<std::string> names;
  for (const ConfigOption& option : config_options()) names.push_back(concat(before, option.name));
  return suggestion(concat(before, typed), names);
}

}  // namespace dlpipe::run

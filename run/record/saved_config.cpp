#include "dlpipe/run/record/saved_config.h"

#include <filesystem>
#include <map>

#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/input/path_kind.h"

namespace dlpipe::run {

namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 20;

std::string last_line_for(std::string_view text) {
  return concat(kConfigChecksum, hex64(data::checksum64(std::as_bytes(std::span(text)))), "\n");
}

bool is_as_written(std::string_view text) {
  const size_t mark = text.rfind(kConfigChecksum);
  return mark != std::string_view::npos && last_line_for(text.substr(0, mark)) == text.substr(mark);
}

/// "lr is 0.2, was 0.1; ...", of options that may not change; "" when there is none.
std::string describe_changes(const TrainConfig& now, const TrainConfig& written) {
  constexpr int kMostNamed = 5;
  std::string text;
  int changes = 0;
  const auto compare = [&](std::string_view name, const std::string& is, const std::string& was) {
    if (is == was || ++changes > kMostNamed) return;
    text += concat(text.empty() ? "" : "; ", name, " is '", is, "', was '", was, "'");
  };
  for (const ConfigOption& option : config_options()) {
    if (!option.free_on_resume) compare(option.name, option_text(option, now), option_text(option, written));
  }
  std::map<std::string, std::string> names = written.record;
  names.insert(now.record.begin(), now.record.end());
  const auto value_in = [](const TrainConfig& config, const std::string& name) {
    const auto found = config.record.find(name);
    return found != config.record.end() ? found->second : "";
  };
  for (const auto& [name, unused] : names) compare(name, value_in(now, name), value_in(written, name));
  return changes > kMostNamed ? concat(text, "; and ", changes - kMostNamed, " more") : text;
}

}  // namespace

Status save_config(const std::string& run, const TrainConfig& config) {
  std::string text = write_config(config);
  text += last_line_for(text);
  DLPIPE_RETURN_IF_ERROR(formats::write_file(run + "/checkpoints/config.toml", text));
  return formats::write_file(run + "/config.toml", text);
}

Result<TrainConfig> load_config(const std::string& run) {
  const std::string file = run + "/config.toml";
  const std::string copy = run + "/checkpoints/config.toml";
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, formats::read_file(file, kMostBytes));
  TrainConfig config;
  const Status readable = parse_config(text, file, config);
  const Result<std::string> copied = formats::read_file(copy, kMostBytes);
  const bool has_copy = copied.ok() && is_as_written(*copied);
  if (is_as_written(text) || (!has_copy && text.find(kConfigChecksum) == std::string::npos)) {
    if (!readable.ok()) return readable;
    return config;
  }
  const std::string how_to_go_on =
      concat(has_copy ? concat("; to go on, put it back: cp ", shell_word(copy), " ", shell_word(file))
                      : std::string(),
             "; to train with other options, begin another run: dlpipe train --config ", shell_word(file),
             " --out NEW");
  if (!readable.ok()) return Status(ErrorCode::kChanged, concat(readable.message(), how_to_go_on));
  if (!has_copy) {
    return Status(ErrorCode::kChanged,
                  concat("[run] ", file,
                         " was changed since dlpipe wrote it, and the copy in checkpoints/ is "
                         "damaged or missing",
                         how_to_go_on));
  }
  TrainConfig written;
  DLPIPE_RETURN_IF_ERROR(parse_config(*copied, copy, written));
  const std::string changes = describe_changes(config, written);
  if (changes.empty()) return config;
  return Status(ErrorCode::kChanged,
                concat("[run] ", file, " was changed since dlpipe wrote it: ", changes, how_to_go_on,
                       "; what may change on --resume is given as an option: ", free_option_names(),
                       ", --data (the same dataset elsewhere), --epochs (a longer run)"));
}

std::string dataset_of_run(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path run = path;
  if (!run.has_filename()) run = run.parent_path();
  for (int above = 0; above < 2 && !std::filesystem::exists(run / "config.toml", ignored); ++above)
    run = run.parent_path();
  TrainConfig config;
  if (!read_config(run / "config.toml", config).ok() || !has_dataset(config.data)) return "";
  return config.data;
}

}  // namespace dlpipe::run

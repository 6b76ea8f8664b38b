// `dlpipe convert-augment`: another library's recipe as an expression for --augment.
#include <fstream>
#include <iterator>
#include <memory>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/regular_file.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/use/convert_augment.h"
#include "dlpipe/run/use/picture_list.h"

namespace dlpipe::cli {

namespace {

struct Options {
  std::string file;
  std::string recipe;
  bool json = false;
};

Result<std::string> read_recipe(const std::string& path) {
  if (path == "-") return run::read_standard_input();
  DLPIPE_RETURN_IF_ERROR(stamp_regular_file("convert-augment", path).status());
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad())
    return Status(ErrorCode::kIo, concat("[convert-augment] ", path, " can't be read to its end"));
  return text;
}

formats::Json list(const std::vector<std::string>& lines) {
  formats::Json all = formats::Json::array();
  for (const std::string& line : lines) all.push_back(line);
  return all;
}

Status run(const Options& options) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_recipe(options.file));
  DLPIPE_ASSIGN_OR_RETURN(const run::ConvertedAugment converted,
                          run::convert_augment(text, options.file, options.recipe));
  if (options.json) {
    print_answer(formats::Json::object({{"augment", converted.expression},
                                        {"no_equal", list(converted.no_equal)},
                                        {"notes", list(converted.notes)}})
                     .dump());
  } else {
    print_answer(converted.expression);
    for (const std::string& line : converted.notes) print_note(concat("[convert-augment] ", printable(line)));
  }
  for (const std::string& line : converted.no_equal)
    print_note(concat("[convert-augment] left out, it has no equal: ", printable(line)));
  if (converted.no_equal.empty()) return {};
  return {ErrorCode::kUnsupported, concat("[convert-augment] ", converted.no_equal.size(),
                                          " transforms have no equal; the expression is without them")};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags
      .add_option("FILE", options->file,
                  "What albumentations.save wrote (JSON or YAML), or torchvision transforms as written or "
                  "printed; '-': "
                  "standard input")
      .required();
  flags.add_option("--recipe", options->recipe,
                   "Name of the recipe, where a program's text has several: train_transform");
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return run(*options); };
}

}  // namespace

extern const CommandRecord convert_augment_command;
const CommandRecord convert_augment_command = {
    "convert-augment", "Turn a recipe of Albumentations or torchvision into a chain for --augment", setup};

}  // namespace dlpipe::cli

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
#include "dlpipe/run/convert/convert_augment.h"
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

void print_json(const std::vector<run::ConvertedAugment>& all) {
  formats::Json recipes = formats::Json::array();
  for (const run::ConvertedAugment& one : all)
    recipes.push_back(formats::Json::object({{"recipe", one.name},
                                             {"line", one.line},
                                             {"augment", one.expression},
                                             {"no_equal", list(one.no_equal)},
                                             {"notes", list(one.notes)}}));
  const bool is_one = all.size() == 1;
  print_answer(
      formats::Json::object({{"augment", is_one ? formats::Json(all[0].expression) : formats::Json()},
                             {"no_equal", list(is_one ? all[0].no_equal : std::vector<std::string>())},
                             {"notes", list(is_one ? all[0].notes : std::vector<std::string>())},
                             {"recipes", std::move(recipes)}})
          .dump());
}

Status run(const Options& options) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_recipe(options.file));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<run::ConvertedAugment> all,
                          run::convert_augments(text, options.file, options.recipe));
  if (options.json) print_json(all);
  size_t left_out = 0;
  std::string names;
  for (const run::ConvertedAugment& one : all) {
    const std::string name = printable(one.name);
    const std::string of = all.size() > 1 ? concat(name, ": ") : std::string();
    if (!options.json) {
      print_answer(concat(of, one.expression));
      for (const std::string& line : one.notes) print_note(concat("[convert-augment] ", of, printable(line)));
    }
    for (const std::string& line : one.no_equal)
      print_note(concat("[convert-augment] ", of, "left out, it has no equal: ", printable(line)));
    left_out += one.no_equal.size();
    names += concat(names.empty() ? "" : ", ", name);
  }
  if (all.size() > 1) {
    return {ErrorCode::kCorrupt, concat("[convert-augment] ", options.file, ": there are ", all.size(),
                                        " recipes, ", names, "; choose one with --recipe NAME")};
  }
  if (left_out == 0) return {};
  return {ErrorCode::kUnsupported,
          concat("[convert-augment] ", left_out, left_out == 1 ? " transform has" : " transforms have",
                 " no equal; the expression is without ", left_out == 1 ? "it" : "them")};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags
      .add_option(
          "FILE", options->file,
          "A Python program with transforms of torchvision, Albumentations or timm, what print(transform) "
          "writes, or what albumentations.save wrote (JSON or YAML); '-': standard input")
      .required();
  flags.add_option(
      "--recipe", options->recipe,
      "Name of the recipe, where a program has several: the variable's, the dictionary key's or the "
      "function's, as the answer without it lists them");
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return run(*options); };
}

}  // namespace

extern const CommandRecord convert_augment_command;
const CommandRecord convert_augment_command = {
    "convert-augment", "Turn transforms of torchvision, Albumentations or timm into a chain for --augment",
    setup};

}  // namespace dlpipe::cli

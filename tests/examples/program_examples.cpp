// Examples of the program's commands: see README.md here.
#include <memory>
#include <string>

#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "dlpipe/dataset.h"

namespace dlpipe::cli {

// cli/README.md
static std::function<Status()> setup(Flags& flags) {
  auto data = std::make_shared<std::string>();
  flags.add_option("DATA", *data, "Dataset").required();
  return [data]() -> Status {
    DLPIPE_ASSIGN_OR_RETURN(const auto dataset, data::Dataset::open(*data));
    print_answer(human_count(dataset->size()));
    return {};
  };
}
extern const CommandRecord count_command;
const CommandRecord count_command = {"count", "Count the samples of a dataset", setup};

namespace bound {

struct Options {
  std::string source;
};
Status convert(const Options& options);

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("SRC", options->source, "Folder of images").required();
  return [options] { return convert(*options); };
}

}  // namespace bound
}  // namespace dlpipe::cli

#include "dlpipe/cli/weights_view.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/io/formats/weights_file.h"

namespace dlpipe::cli {

namespace {

using formats::Json;

// The facts that both forms tell.
struct Facts {
  std::string kind = "checkpoint";        // or that of the file
  std::map<std::string, int64_t> dtypes;  // with how many tensors have each
  int64_t parameters = 0;                 // elements of all but counters and running statistics
  std::string model;                      // the checkpoint's, or the one that the tensors fit
  int64_t classes = 0;                    // 0: nobody knows
  std::string chain;                      // the checkpoint's, or for a bare file what eval takes
  std::string normalization;              // for a bare file: where it is from
};

bool is_statistic(const std::string& name) {
  return name.ends_with("running_mean") || name.ends_with("running_var") ||
         name.ends_with("num_batches_tracked");
}

Facts facts_of(const run::WeightsSource& source) {
  Facts facts;
  if (source.checkpoint_tensors.empty()) {
    const auto file = value_or_throw(formats::WeightsFile::open(source.path));
    for (const auto& entry : file.entries()) ++facts.dtypes[entry.dtype_text];
    if (!source.state || source.step < 0) facts.kind = file.kind();
  } else {
    for (const auto& tensor : source.checkpoint_tensors) {
      std::string dtype(dtype_name(tensor.tensor.dtype()));
      std::transform(dtype.begin(), dtype.end(), dtype.begin(),
                     [](unsigned char c) { return std::toupper(c); });
      ++facts.dtypes[dtype];
    }
  }
  for (const engine::NamedShape& tensor : source.shapes) {
    if (!is_statistic(tensor.name)) facts.parameters += tensor.shape.elements();
  }
  if (source.state) {
    facts.model = source.state->model;
    facts.classes = source.state->arguments.classes;
    facts.chain = source.state->val_augment;
    return facts;
  }
  facts.model = run::fitting_model(source.shapes, {});
  if (facts.model.empty()) return facts;
  const auto& record = *value_or_throw(engine::ModelRegistry::builtin().find(facts.model));
  const auto arguments = run::arguments_from(source.shapes, record);
  facts.classes = arguments->classes;
  const auto found =
      run::normalization_of(source, record, arguments->channels, augment::OpRegistry::builtin());
  if (found.op.empty()) return facts;
  facts.chain = concat(run::default_cut(record, nullptr), " ", found.op);
  facts.normalization = found.origin;
  return facts;
}

}  // namespace

std::string weights_text(const run::WeightsSource& source) {
  const Facts facts = facts_of(source);
  std::string dtypes;
  for (const auto& [name, count] : facts.dtypes)
    dtypes += concat(dtypes.empty() ? "" : ", ", human_count(count), " ", name);
  std::string text = concat("path        ", printable(source.path), "\ntensors     ",
                            human_count(static_cast<int64_t>(source.shapes.size())), ": ", dtypes,
                            "\nparameters  ", human_count(facts.parameters), "\n");
  for (const std::string& note : source.notes) text += concat("note        ", printable(note), "\n");
  if (facts.model.empty()) return text + "model       none of dlpipe's has these names and shapes\n";
  text += concat("model       ", facts.model,
                 !source.state      ? ", by names and shapes"
                 : source.step >= 0 ? concat(", step ", source.step)
                                    : ", as the file says",
                 "\nclasses     ", human_count(facts.classes));
  if (source.state && !source.state->classes.empty()) text += ": " + quoted_names(source.state->classes);
  if (source.state && source.state->arguments.length == 0) {
    const auto& a = source.state->arguments;
    text += concat("\ninput       ", a.height, "x", a.width, "x", a.channels);
  }
  if (!facts.chain.empty()) text += concat("\nchain       ", facts.chain);
  if (!facts.normalization.empty())
    text += concat("\n            the normalisation is ", facts.normalization);
  if (source.state)
    text +=
        concat("\ntta         ", source.state->tta, "\ndtype       ", source.state->dtype, " in training");
  constexpr size_t kColumn = 12;
  return prose(text, kColumn) + "\n";
}

Json weights_json(const run::WeightsSource& source) {
  const Facts facts = facts_of(source);
  Json dtypes = Json::object();
  for (const auto& [name, count] : facts.dtypes) dtypes.set(name, count);
  Json json = Json::object();
  json.set_path("path", source.path)
      .set("kind", facts.kind)
      .set("tensors", static_cast<int64_t>(source.shapes.size()))
      .set("dtypes", std::move(dtypes))
      .set("parameters", facts.parameters)
      .set("model", facts.model)
      .set("class_count", facts.classes)
      .set("val_augment", facts.chain)
      .set("step", Json())
      .set("tta", Json())
      .set("dtype", Json());
  Json classes = Json::array();
  if (source.state) {
    for (const std::string& name : source.state->classes) classes.push_back(name);
    if (source.step >= 0) json.set("step", source.step);
    json.set("tta", source.state->tta);
    json.set("dtype", source.state->dtype);
  }
  json.set("classes", std::move(classes));
  return json;
}

}  // namespace dlpipe::cli

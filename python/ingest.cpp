// `dlpipe ingest` as a function.
#include "dlpipe/run/ingest/ingest.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/log.h"
#include "dlpipe/base/text.h"
#include "dlpipe/python/errors.h"
#include "dlpipe/python/paths.h"
#include "dlpipe/python/storing.h"
#include "dlpipe/python/subjects.h"
#include "dlpipe/python/task.h"
#include "dlpipe/python/waiting.h"
#include "dlpipe/run/ingest/draw.h"
#include "dlpipe/run/input/path_kind.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

nb::dict to_dict(const ingest::IngestProgress& progress) {
  nb::dict dict;
  dict["split"] = to_text(progress.split);
  dict["done"] = progress.done;
  dict["total"] = progress.total;
  dict["skipped"] = progress.skipped;
  dict["bytes_done"] = progress.bytes_done;
  dict["seconds"] = progress.seconds;
  dict["samples_per_s"] = progress.samples_per_s;
  dict["remaining_s"] = progress.remaining_s;
  dict["limit"] = progress.limiting;
  return dict;
}

/// Answers what `--json` prints.
nb::any run_ingest(const std::vector<nb::bytes>& sources, const nb::bytes& destination, const nb::bytes& list,
                   const nb::bytes& manifest, const std::string& label, const std::vector<std::string>& field,
                   const nb::bytes& labels, const nb::bytes& images, const nb::bytes& classes_from,
                   int64_t limit, const std::string& split, const std::string& part, bool no_splits,
                   int64_t length, uint64_t seed, const nb::object& window, const nb::dict& storing,
                   const nb::object& progress) {
  ingest::IngestOptions options;
  for (const nb::bytes& source : sources) {
    options.sources.push_back(to_path(source));
    throw_if_error(run::refuse_other_kind("ingest", options.sources.back(), run::Wanted::kRawData));
  }
  options.destination = to_path(destination);
  options.list = to_path(list);
  options.manifest = to_path(manifest);
  options.label = label;
  options.fields = field;
  options.labels = to_path(labels);
  options.images = to_path(images);
  options.classes_from = to_path(classes_from);
  options.limit = limit;
  if (!split.empty()) options.split = value_or_throw(ingest::parse_split(split));
  if (!part.empty()) options.part = value_or_throw(ingest::parse_part(part));
  options.no_splits = no_splits;
  options.length = length;
  options.seed = seed;
  options.window_bytes = bytes_option("window", window);
  set_storing_options(storing, options);

  Task task;
  options.on_warning = [](const std::string& warning) { log(LogLevel::kWarning, warning); };
  options.stop_requested = [&] { return task.stop_requested().load(); };
  std::function<void(const ingest::IngestProgress&)> on_progress;
  if (!progress.is_none()) {
    on_progress = [&](const ingest::IngestProgress& now) { task.call([&] { progress(to_dict(now)); }); };
  }
  ingest::IngestReport report;
  task.run([&] { report = value_or_throw(ingest::ingest(options, on_progress)); });
  return answer_of(report);
}

/// For each sample the split that it goes to, "" where there are none; None for those that the limit leaves out.
std::vector<std::optional<std::string>> draw(const std::vector<std::string>& names,
                                             const std::vector<int64_t>& classes, int64_t limit,
                                             const std::string& split, uint64_t seed) {
  throw_if_error(ingest::check_limit(limit));
  const std::vector<std::string_view> views(names.begin(), names.end());
  ingest::SampleDraw draw = {.names = views, .classes = classes, .limit = limit, .seed = seed};
  if (!split.empty()) draw.split = value_or_throw(ingest::parse_split(split));
  std::vector<std::optional<std::string>> splits;
  for (const auto& drawn : value_or_throw(ingest::draw_samples(draw))) {
    auto& one = splits.emplace_back();
    if (drawn) one = draw.split.empty() ? "" : ingest::kDrawnSplits[*drawn];
  }
  return splits;
}

}  // namespace

void bind_ingest(nb::module_& module) {
  module.def("draw", draw, nb::arg("names"), nb::arg("classes"), nb::arg("limit"), nb::arg("split"),
             nb::arg("seed"));
  module.def("ingest", run_ingest, nb::kw_only(), nb::arg("sources"), nb::arg("destination"), nb::arg("list"),
             nb::arg("manifest"), nb::arg("label"), nb::arg("field"), nb::arg("labels"), nb::arg("images"),
             nb::arg("classes_from"), nb::arg("limit"), nb::arg("split"), nb::arg("part"),
             nb::arg("no_splits"), nb::arg("length"), nb::arg("seed"), nb::arg("window"), nb::arg("storing"),
             nb::arg("progress").none());
}

}  // namespace dlpipe::python

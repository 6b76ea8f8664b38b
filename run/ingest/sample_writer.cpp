#include "dlpipe/run/ingest/sample_writer.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/run/ingest/freeze.h"
#include "dlpipe/run/ingest/options.h"
#include "dlpipe/run/ingest/sample_writer_impl.h"

namespace dlpipe::ingest {

namespace {

namespace fs = std::filesystem;
using data::Field;
using data::FieldKind;

std::vector<Field> default_fields() {
  return {{"image", FieldKind::kImage, DType::kU8, {}},
          {"label", FieldKind::kLabel, DType::kI64, {}},
          {"path", FieldKind::kBytes, DType::kU8, {}}};
}

Status check_fields(const std::vector<Field>& fields) {
  std::set<std::string> names;
  int images = 0, labels = 0, masks = 0;
  for (const Field& field : fields) {
    if (field.name.empty() || !names.insert(field.name).second)
      return misuse("writer", "a field's name is empty or there twice: '", printable(field.name), "'");
    images += field.kind == FieldKind::kImage ? 1 : 0;
    labels += field.kind == FieldKind::kLabel ? 1 : 0;
    const bool known = field.kind == FieldKind::kImage || field.kind == FieldKind::kLabel ||
                       field.kind == FieldKind::kBytes || field.kind == FieldKind::kMask ||
                       data::fixed_field_bytes(field).has_value() || data::field_row_bytes(field).has_value();
    if (!known)
      return misuse("writer", "field '", printable(field.name),
                    "' is of a kind that is not written: ", data::field_kind_name(field.kind),
                    "; use image, label, bytes, labels, boxes, points, mask or a tensor");
    masks += field.kind == FieldKind::kMask ? 1 : 0;
  }
  if (masks > 0 && images == 0)
    return misuse("writer", "a mask is of a picture, and no field is an image; add one");
  if (const Status forms = data::check_forms(fields); !forms.ok()) return misuse("writer", forms.message());
  if (images > 1 || labels > 1)
    return misuse("writer", "more than one image or label field; one is supported");
  if (fields.size() > data::kMostFields)
    return misuse("writer", fields.size(), " fields; a dataset has at most ", data::kMostFields);
  return {};
}

Status check_classes(const std::vector<std::string>& classes) {
  std::set<std::string_view> seen;
  for (const std::string& name : classes) {
    if (name.empty()) return misuse("writer", "a class has an empty name; give each a name");
    if (!seen.insert(name).second)
      return misuse("writer", "two classes are called '", printable(name), "'; give each a name of its own");
  }
  return {};
}

std::optional<size_t> find_kind(const std::vector<Field>& fields, FieldKind kind) {
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].kind == kind) return i;
  }
  return std::nullopt;
}

}  // namespace

Status SampleWriter::Impl::begin() {
  if (options.fields.empty()) options.fields = default_fields();
  DLPIPE_RETURN_IF_ERROR(check_fields(options.fields));
  image_field = find_kind(options.fields, FieldKind::kImage);
  label_field = find_kind(options.fields, FieldKind::kLabel);
  for (size_t i = 0; i < options.fields.size(); ++i) {
    if (options.fields[i].name == "path" && options.fields[i].kind == FieldKind::kBytes) path_field = i;
  }
  state.options = canonical_options(options.ingest);
  state.source = options.source;
  state.schema.fields = options.fields;
  state.schema.classes = options.classes;
  state.schema.zstd = options.ingest.zstd;
  state.schema.records_per_value = 0;
  state.labels = options.classes.empty() ? Labels::kUnknown : Labels::kFixed;
  if (!partial.was_there()) return {};
  std::error_code ignored;
  const bool is_begun = fs::exists(paths.list, ignored) || fs::exists(paths.provenance, ignored);
  if (!is_begun || options.interrupted == Interrupted::kRestart) return partial.clear();
  return resume();
}

Status SampleWriter::Impl::refuse_difference(const std::string& difference) const {
  if (difference.empty()) return {};
  return misuse("writer", paths.partial, " was begun with other options: ", difference,
                "; use those, or begin again with interrupted 'restart'");
}

/// Only the rename is missing: what would differ stands in the provenance and in the finished datasets.
Status SampleWriter::Impl::resume_sealed() {
  DLPIPE_ASSIGN_OR_RETURN(const Provenance provenance, read_provenance(paths.provenance));
  std::string difference = first_difference(provenance.options, state.options);
  for (const std::string& name : provenance.splits) {
    DLPIPE_ASSIGN_OR_RETURN(const auto dataset, data::Dataset::open(paths.split(paths.partial, name)));
    const std::string was = fields_text({dataset->fields().begin(), dataset->fields().end()});
    const std::string is = fields_text(state.schema.fields);
    if (difference.empty() && was != is) difference = concat("fields ", was, ", now ", is);
    const bool same_table =
        options.classes.empty() || std::ranges::equal(options.classes, dataset->classes());
    if (difference.empty() && !same_table) difference = "classes";
  }
  DLPIPE_RETURN_IF_ERROR(refuse_difference(difference));
  is_sealed = true;
  state.total = provenance.files;
  state.options = provenance.options;
  state.splits = provenance.splits;
  next = static_cast<uint64_t>(state.total);
  return {};
}

Status SampleWriter::Impl::resume() {
  if (options.interrupted == Interrupted::kRefuse)
    return misuse(
        "writer", paths.partial,
        " holds what an interrupted writer has committed; open it with interrupted 'resume' to go on "
        "behind that, or 'restart' to remove it and begin again");
  is_resumed = true;
  std::error_code ignored;
  if (!fs::exists(paths.list, ignored)) return resume_sealed();
  DLPIPE_ASSIGN_OR_RETURN(SampleWriterState former, load_state(paths.list));
  std::string difference = first_difference(former.options, state.options);
  const std::string was = fields_text(former.schema.fields), is = fields_text(state.schema.fields);
  if (difference.empty() && was != is) difference = concat("fields ", was, ", now ", is);
  const bool same_table =
      former.labels == Labels::kFixed ? former.schema.classes == options.classes : options.classes.empty();
  if (difference.empty() && !same_table) difference = "classes";
  if (difference.empty() && former.source != state.source)
    difference = concat("samples of ", printable(former.source), ", now ", printable(state.source));
  DLPIPE_RETURN_IF_ERROR(refuse_difference(difference));
  state = saved = std::move(former);
  is_saved = true;
  next = kAllOfIt;
  for (const std::string& name : state.splits) {
    Split& split = splits.emplace_back(Split{name, 0, nullptr});
    DLPIPE_RETURN_IF_ERROR(open_writer(split));
    split.done = split.writer->finished() ? kAllOfIt : split.writer->position();
    // Nothing of it stands: it begins, as in a run without the kill, with its first sample and not with a commit.
    if (split.done == 0) split.writer.reset();
    next = std::min(next, split.done);
  }
  if (next == kAllOfIt) next = state.total < 0 ? 0 : static_cast<uint64_t>(state.total);
  return {};
}

Result<Interrupted> parse_interrupted(const std::string& name) {
  static const std::vector<std::string> kNames = {"refuse", "resume", "restart"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Interrupted>(i);
  }
  return misuse("writer", "--interrupted ", name, suggestion(name, kNames));
}

Result<std::unique_ptr<SampleWriter>> SampleWriter::open(const SampleWriterOptions& given) {
  try {
    SampleWriterOptions options = given;
    if (options.ingest.destination.empty()) return misuse("writer", "give a destination");
    options.ingest.sources = {"-"};  // what the options' check wants to see
    DLPIPE_RETURN_IF_ERROR(check_options(options.ingest));
    DLPIPE_RETURN_IF_ERROR(check_classes(options.classes));
    if (options.ingest.store == Store::kLink)
      return misuse("writer",
                    "pictures in memory are in no file that a link could lead to; choose another store, or "
                    "link files with `dlpipe ingest SRC DST --store link`");
    Paths paths(options.ingest.destination);
    std::error_code ignored;
    if (fs::exists(paths.destination, ignored))
      return misuse("writer", paths.destination, " exists already; remove it or choose another");
    DLPIPE_ASSIGN_OR_RETURN(auto partial, data::PartialDirectory::claim("writer", paths.destination));
    const bool was_there = partial.was_there();
    auto impl = std::make_unique<Impl>(options, std::move(paths), std::move(partial));
    if (const Status begun = impl->begin(); !begun.ok()) {
      if (!was_there) DLPIPE_RETURN_IF_ERROR(impl->partial.remove());
      return begun;
    }
    return std::unique_ptr<SampleWriter>(new SampleWriter(std::move(impl)));
  } catch (...) {
    return status_from_current_exception("writer");
  }
}

SampleWriter::SampleWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

SampleWriter::~SampleWriter() {
  abandon();
}

const std::vector<data::Field>& SampleWriter::fields() const {
  return impl_->options.fields;
}

int64_t SampleWriter::position() const {
  return static_cast<int64_t>(impl_->next);
}

static Status over() {
  return misuse("writer", "the writer is finished or abandoned");
}

Status SampleWriter::add(NewSample sample) {
  if (impl_->is_over) return over();
  if (!impl_->failure.ok()) return impl_->failure;
  try {
    return impl_->add(std::move(sample));
  } catch (...) {
    return impl_->failure = status_from_current_exception("writer");
  }
}

Result<IngestReport> SampleWriter::finish() {
  if (impl_->is_over) return over();
  if (!impl_->failure.ok()) return impl_->failure;
  try {
    if (!impl_->is_sealed) DLPIPE_RETURN_IF_ERROR(impl_->failure = impl_->finish_splits());
    auto report = impl_->publish();
    impl_->failure = report.status();
    impl_->is_over = report.ok();
    return report;
  } catch (...) {
    return impl_->failure = status_from_current_exception("writer");
  }
}

void SampleWriter::abandon() {
  if (std::exchange(impl_->is_over, true)) return;
  impl_->workers.reset();
  for (Impl::Split& split : impl_->splits) split.writer.reset();
  if (!impl_->is_saved && !impl_->is_sealed) (void)impl_->partial.remove();
  const data::PartialDirectory let_go(std::move(impl_->partial));  // another writer may go on with it
}

}  // namespace dlpipe::ingest

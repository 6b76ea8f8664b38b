#include "pipeline/plan/setup.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/machine.h"
#include "base/messages.h"
#include "base/names.h"
#include "base/text.h"
#include "dlpipe/augment.h"
#include "dlpipe/error.h"
#include "io/data/schema.h"
#include "pipeline/plan/plan.h"

namespace dlpipe::pipeline {

namespace {

constexpr int kMaxThreads = 1024;
constexpr int kMaxSlots = 1024;
constexpr int kMaxGrownSlots = 65536;
constexpr int kMaxDeviceSlots =
    16;  // unless more are requested: the rest of a device's memory is for the model
constexpr int64_t kMostViews = 64;

Status check_alpha(const char* option, double alpha, const LoaderOptions& o) {
  if (!(alpha >= 0) || std::isinf(alpha)) {
    return misuse("loader", option, " ", alpha,
                  "; use the alpha of Beta(alpha, alpha), such as 0.2 or 1, or 0 for off");
  }
  if (alpha > 0 && o.batch < 2) {
    return misuse("loader", option, " ", alpha, " mixes samples of a batch; use --batch 2 or more");
  }
  if (alpha > 0 && o.grains > 1 && o.batch * o.world / o.grains < 2) {
    return misuse("loader", option, " ", alpha, " mixes samples of a grain, but --grains ", o.grains,
                  " leaves only one sample of the global batch of ", o.batch * o.world,
                  " in each grain; use --grains ", o.batch * o.world / 2, " or fewer, or a larger --batch");
  }
  return {};
}

Status check_options(const LoaderOptions& o) {
  if (o.data.empty())
    return misuse("loader", "there is no dataset; set --data to a directory made by `dlpipe ingest`");
  if (o.batch < 1) return misuse("loader", "--batch ", o.batch, "; a batch holds at least 1 sample");
  if (o.views < 1 || o.views > kMostViews)
    return misuse("loader", "--views ", o.views, "; use 1 to ", kMostViews);
  if (o.batch > std::numeric_limits<int32_t>::max() / (2 * o.views))
    return misuse("loader", "--batch ", o.batch, " is too large");
  if (o.views > 1 && (o.mixup > 0 || o.cutmix > 0 || o.grains > 1))
    return misuse("loader", "--views ", o.views,
                  " does not work with --mixup, --cutmix and --grains; leave these out");
  if (o.threads < 0 || o.threads > kMaxThreads) {
    return misuse("loader", "--threads ", o.threads, "; use 1 to ", kMaxThreads,
                  ", or 0 for as many as may be used");
  }
  if (o.slots < 1 || o.slots > kMaxSlots) {
    return misuse("loader", "--slots ", o.slots, "; use 1 to ", kMaxSlots);
  }
  if (o.slots_max > 0 ? o.slots_max < o.slots || o.slots_max > kMaxGrownSlots : o.slots_max < -1) {
    return misuse("loader", "slots_max ", o.slots_max, "; use ", o.slots, " (the initial slots) to ",
                  kMaxGrownSlots, ", or -1 for as many as fit into memory");
  }
  if (o.world < 1) return misuse("loader", "--world ", o.world, "; use 1 or more");
  if (o.rank < 0 || o.rank >= o.world) {
    return misuse("loader", "--rank ", o.rank, "; with --world ", o.world, " ranks are 0 to ", o.world - 1);
  }
  if (o.grains < 1 || (o.grains > 1 && o.grains % o.world != 0) || o.batch * o.world % o.grains != 0) {
    return misuse("loader", "--grains ", o.grains, "; use a multiple of the ranks (", o.world,
                  ") that divides the global batch (", o.batch * o.world, "), or 1");
  }
  if (o.epochs == 0 || o.epochs < -1)
    return misuse("loader", "--epochs ", o.epochs, "; use 1 or more, or -1 for no end");
  if (o.limit == 0 || o.limit < -1)
    return misuse("loader", "--limit ", o.limit, "; use 1 or more, or -1 for all samples");
  if (o.max_bad < -1)
    return misuse("loader", "--max-bad ", o.max_bad, "; use 0 or more, or -1 for max(10, 0.1 %)");
  if (o.memory_bytes < 0)
    return misuse("loader", "--memory ", o.memory_bytes, "; use a size such as 1GiB, or 0");
  const DType dtype = o.image_dtype;
  if (dtype != DType::kU8 && dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)
    return misuse("loader", "--dtype ", dtype_name(dtype), "; images are u8, f32, f16 or bf16");
  if (o.mask_fill < 0 || o.mask_fill > 255)
    return misuse("loader", "--mask-fill ", o.mask_fill, "; a mask holds 0 to 255");
  if (o.max_pixels < 1) return misuse("loader", "--max-pixels ", o.max_pixels, "; use 1 or more");
  DLPIPE_RETURN_IF_ERROR(check_alpha("--mixup", o.mixup, o));
  return check_alpha("--cutmix", o.cutmix, o);
}

// The common size of all images, or zeros if they differ. One pass over the header table.
Result<augment::ImageSize> common_size(const data::Dataset& dataset, const Subset& subset, int channels) {
  augment::ImageSize size{0, 0, channels};
  for (int64_t i = 0; i < subset.count(); ++i) {
    DLPIPE_ASSIGN_OR_RETURN(const data::RecordHeader header, dataset.header(subset.sample(i)));
    if (i > 0 && (header.width != size.width || header.height != size.height)) {
      return augment::ImageSize{0, 0, channels};
    }
    size.width = header.width;
    size.height = header.height;
  }
  return size;
}

// The chain's output size: from the chain alone or, if it depends on the input, from the common size of all images.
Result<augment::ImageSize> find_image_size(const Setup& setup, const Subset& subset) {
  const int channels = setup.options.channels;
  if (channels != 1 && channels != 3)
    return misuse("loader", "--channels ", channels, "; images are decoded to 1 (grey) or 3 (RGB)");
  augment::ImageSize any{0, 0, setup.options.channels};
  auto size = setup.chain.output(any);
  if (size.ok() && size->width > 0 && size->height > 0) return size;
  DLPIPE_ASSIGN_OR_RETURN(any, common_size(*setup.dataset, subset, setup.options.channels));
  if (any.width == 0) {
    return misuse("loader", "the images of ", setup.options.data, " have different sizes and --augment \"",
                  setup.options.augment,
                  "\" keeps them; add an op that makes one size, such as rrc(224) or resize(256) "
                  "center_crop(224)");
  }
  return setup.chain.output(any);
}

/// Whether samples have a class; detection datasets have a field for it that is empty.
bool has_classes(const data::Dataset& dataset) {
  const std::span<const int64_t> counts = dataset.class_counts();
  return std::any_of(counts.begin(), counts.end(), [](int64_t count) { return count > 0; });
}

/// Why a loader has no image field, and what to do.
std::string no_image(const Setup& setup) {
  for (const data::Field& field : setup.dataset->fields()) {
    if (field.kind == data::FieldKind::kImage)
      return concat("the image field '", field.name,
                    "' is not chosen; choose it too, or leave the option out");
  }
  return concat(setup.options.data, " has no image field; leave the option out");
}

/// Options for fields that are missing or can't be mixed.
Status check_uses(const Setup& setup) {
  const LoaderOptions& o = setup.options;
  if (setup.image_field < 0 && !setup.chain.empty())
    return misuse("loader", "--augment \"", o.augment, "\" needs images, but ", no_image(setup));
  using Kind = data::FieldKind;
  DLPIPE_RETURN_IF_ERROR(check_objects("loader", setup.chain, *setup.dataset));
  const augment::OpRecord* const blend = setup.chain.find(&augment::OpTraits::blends);
  const augment::OpRecord* const join = setup.chain.find_join();
  for (const data::Field& field : setup.fields) {
    const bool is_there = std::any_of(setup.fields.begin(), setup.fields.end(),
                                      [&](const data::Field& one) { return one.name == field.of; });
    if (!field.of.empty() && !is_there)
      return misuse("loader", "the field '", field.name, "' belongs to '", field.of,
                    "', which is not chosen; choose both");
    const bool moves = field.kind == Kind::kBoxes || field.kind == Kind::kPoints || field.kind == Kind::kMask;
    if (blend != nullptr && moves)
      return misuse("loader", "--augment has ", blend->name,
                    ", which shows an image in several places at once, but the field '", field.name,
                    "' of kind ", data::field_kind_name(field.kind),
                    " can't move with it; leave one of them out");
    const bool is_single = field.kind == Kind::kLabel
                               ? has_classes(*setup.dataset)
                               : field.of.empty() && !moves && field.kind != Kind::kImage &&
                                     field.kind != Kind::kLabels && field.kind != Kind::kBytes;
    if (join != nullptr && is_single)
      return misuse(
          "loader", "--augment has ", join->name,
          ", which joins several images, but the joined image can have only one value of the field '",
          field.name, "' of kind ", data::field_kind_name(field.kind), "; leave one of them out");
  }
  if (!setup.mixing.is_on()) return {};
  if (setup.image_field < 0) {
    return misuse("loader", "--mixup and --cutmix are only for images, but ", no_image(setup));
  }
  for (const data::Field& field : setup.fields) {
    if (field.kind == Kind::kImage || field.kind == Kind::kLabel || field.kind == Kind::kBytes) continue;
    const bool is_mixable = field.kind == Kind::kLabels ? field.of.empty() : field.kind == Kind::kTensor;
    if (o.mixes_fields && is_mixable) continue;
    return misuse("loader", "--mixup and --cutmix mix images with one class each, and ", o.data,
                  " has the field '", field.name, "' of kind ", data::field_kind_name(field.kind),
                  ", which can't be mixed; leave them out, or choose fields without it");
  }
  return {};
}

/// The dataset's fields that batches are to hold, in its order.
Result<std::vector<data::Field>> chosen_fields(const Setup& setup) {
  const std::span<const data::Field> all = setup.dataset->fields();
  const std::vector<std::string>& names = setup.options.fields;
  for (const std::string& name : names) {
    std::vector<std::string> known;
    for (const data::Field& field : all) known.push_back(field.name);
    if (std::find(known.begin(), known.end(), name) == known.end())
      return misuse("loader", setup.options.data, " has no field '", name, "'", suggestion(name, known));
  }
  std::vector<data::Field> chosen;
  for (const data::Field& field : all) {
    const bool is_named = std::find(names.begin(), names.end(), field.name) != names.end();
    if (names.empty() ? field.name != "path" : is_named) chosen.push_back(field);
  }
  return chosen;
}

Result<Subset> chosen_samples(const Setup& setup) {
  const LoaderOptions& o = setup.options;
  int64_t size = setup.dataset->size();
  if (o.samples != nullptr) {
    const auto is_none = [&](int64_t sample) { return sample < 0 || sample >= size; };
    const auto none = std::find_if(o.samples->begin(), o.samples->end(), is_none);
    if (none != o.samples->end())
      return misuse("loader", "the chosen samples include ", *none, ", but ", o.data, " has only 0 to ",
                    size - 1);
    if (o.samples->empty())
      return misuse("loader", "no sample of ", o.data, " is chosen; choose at least one");
    size = static_cast<int64_t>(o.samples->size());
  }
  return Subset(size, o.limit < 0 ? size : std::min(o.limit, size), o.seed, o.samples);
}

Status describe_fields(Setup& setup, const Subset& subset) {
  setup.image_size.channels = 0;
  DLPIPE_ASSIGN_OR_RETURN(setup.fields, chosen_fields(setup));
  for (const data::Field& field : setup.fields) {
    FieldSpec spec{field.name, field.dtype, field.shape};
    switch (field.kind) {
      case data::FieldKind::kImage: {
        if (setup.image_field >= 0) {
          return Status(
              ErrorCode::kUnsupported,
              concat("[loader] ", setup.options.data, " has two image fields, '",
                     setup.schema[static_cast<size_t>(setup.image_field)].name, "' and '", spec.name,
                     "'; load it with dlpipe.Loader in Python and choose one of them with fields="));
        }
        DLPIPE_ASSIGN_OR_RETURN(setup.image_size, find_image_size(setup, subset));
        spec.dtype = setup.options.image_dtype;
        spec.shape = {setup.image_size.height, setup.image_size.width, setup.image_size.channels};
        setup.image_field = static_cast<int>(setup.schema.size());
        break;
      }
      case data::FieldKind::kLabel:
        spec.dtype = DType::kI64;
        setup.label_field = static_cast<int>(setup.schema.size());
        break;
      case data::FieldKind::kLabels:
        spec.dtype = DType::kI64;
        spec.ragged = true;
        break;
      case data::FieldKind::kMask:
        break;  // its shape is the images'
      default:
        spec.ragged = !data::fixed_field_bytes(field).has_value();
    }
    setup.schema.push_back(std::move(spec));
  }
  for (size_t f = 0; f < setup.fields.size(); ++f) {
    if (setup.fields[f].kind != data::FieldKind::kMask) continue;
    if (setup.image_field < 0)
      return misuse("loader", "the field '", setup.fields[f].name,
                    "' is a mask of images, which are not chosen; choose both");
    setup.schema[f].shape = {setup.image_size.height, setup.image_size.width};
  }
  if (setup.schema.empty()) {
    return Status(ErrorCode::kUnsupported,
                  concat("[loader] ", setup.options.data,
                         " has no field to load; ingest samples with images, labels or fields"));
  }
  return check_uses(setup);
}

// Everything that determines the batches' contents, given dataset and seed; not threads, slots, rank or layout.
std::string hash_pipeline(const Setup& setup) {
  const LoaderOptions& o = setup.options;
  const Subset& subset = setup.sampler.options().subset;
  std::string text = concat("chain ", setup.chain.canonical(), "\nglobal_batch ", o.batch * o.world,
                            "\nshuffle ", o.shuffle, "\nlast ", static_cast<int>(o.last), "\nsamples ",
                            subset.count(), "\non_bad ", static_cast<int>(o.on_bad), "\n");
  if (!subset.is_all()) text += concat("subset ", subset.to_string(), "\n");
  if (o.grains > 1) text += concat("grains ", o.grains, "\n");
  if (o.views > 1) text += concat("views ", o.views, "\n");
  if (setup.mixing.is_on()) {  // partners are of one rank's batch, or of one grain
    text += concat("mixup ", hex64(std::bit_cast<uint64_t>(o.mixup)), "\ncutmix ",
                   hex64(std::bit_cast<uint64_t>(o.cutmix)), "\nbatch ",
                   o.grains > 1 ? setup.grain_samples() : o.batch, "\n");
  }
  if (o.sampler != "uniform") text += concat("sampler ", o.sampler, "\n");
  if (o.mask_fill != 0) text += concat("mask_fill ", o.mask_fill, "\n");
  for (const FieldSpec& spec : setup.schema) {
    text += concat("field ", spec.name, " ", dtype_name(spec.dtype), " ", spec.shape.to_string(),
                   spec.ragged ? " ragged\n" : "\n");
  }
  return hex64(data::checksum64(std::as_bytes(std::span(text))));
}

/// Of each class the weight that --sampler gives it; `counts`: its samples.
Result<std::vector<double>> class_weights(const LoaderOptions& o, std::span<const std::string> classes,
                                          std::span<const int64_t> counts) {
  std::vector<double> weights(counts.size(), 1.0);
  if (o.sampler == "balanced") return weights;
  if (o.sampler == "sqrt") {
    for (size_t c = 0; c < counts.size(); ++c) weights[c] = std::sqrt(static_cast<double>(counts[c]));
    return weights;
  }
  DLPIPE_ASSIGN_OR_RETURN(weights, class_weights_in("loader", "--sampler", o.sampler,
                                                    "uniform, balanced, sqrt,", classes, o.data));
  weights.resize(counts.size(), 1.0);  // of samples without a class
  return weights;
}

/// The class that each sample of the subset counts for: its own, or the rarest of its labels. Those without one are a group behind
/// the classes.
Result<std::vector<int32_t>> groups_of(const data::Dataset& dataset, const Subset& subset) {
  const size_t classes = dataset.classes().size();
  std::vector<int32_t> groups;
  groups.reserve(static_cast<size_t>(subset.count()));
  const auto is_labels = [](const data::Field& field) {
    return field.kind == data::FieldKind::kLabels && field.of.empty();
  };
  const auto field = std::ranges::find_if(dataset.fields(), is_labels);
  const auto none = static_cast<int32_t>(classes);
  if (has_classes(dataset) || field == dataset.fields().end()) {
    for (int64_t place = 0; place < subset.count(); ++place) {
      DLPIPE_ASSIGN_OR_RETURN(const data::RecordHeader header, dataset.header(subset.sample(place)));
      groups.push_back(header.label < 0 ? none : static_cast<int32_t>(header.label));
    }
    return groups;
  }
  std::vector<std::vector<int64_t>> labels(static_cast<size_t>(subset.count()));
  std::vector<int64_t> counts(classes);
  DLPIPE_ASSIGN_OR_RETURN(const auto reader, dataset.reader());
  for (int64_t place = 0; place < subset.count(); ++place) {
    DLPIPE_ASSIGN_OR_RETURN(const auto record, reader->record(subset.sample(place)));
    DLPIPE_ASSIGN_OR_RETURN(const auto bytes, data::field_bytes(dataset, record, field->name));
    std::vector<int64_t>& own = labels[static_cast<size_t>(place)];
    own.resize(bytes.size() / sizeof(int64_t));
    if (!own.empty()) std::memcpy(own.data(), bytes.data(), own.size() * sizeof(int64_t));
    for (const int64_t label : own) ++counts.at(static_cast<size_t>(label));
  }
  for (const std::vector<int64_t>& own : labels) {
    const auto rarest =
        std::ranges::min_element(own, {}, [&](int64_t label) { return counts[static_cast<size_t>(label)]; });
    groups.push_back(rarest == own.end() ? none : static_cast<int32_t>(*rarest));
  }
  return groups;
}

/// What LoaderOptions::sampler means; null where every sample comes once an epoch.
Result<std::shared_ptr<const Quotas>> quotas_of(const Setup& setup, const Subset& subset) {
  const LoaderOptions& o = setup.options;
  if (o.sampler == "uniform") return std::shared_ptr<const Quotas>();
  const data::Dataset& dataset = *setup.dataset;
  if (!o.shuffle)
    return misuse("loader", "--sampler ", o.sampler,
                  " draws samples, and this loader doesn't shuffle; leave it out");
  if (dataset.classes().empty())
    return misuse("loader", "--sampler ", o.sampler, " draws by class, and ", o.data,
                  " has no classes; leave it out");
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<int32_t> groups, groups_of(dataset, subset));
  std::vector<int64_t> counts(dataset.classes().size() + 1);
  for (const int32_t group : groups) ++counts[static_cast<size_t>(group)];
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<double> weights, class_weights(o, dataset.classes(), counts));
  auto quotas = std::make_shared<const Quotas>(groups, weights);
  if (!quotas->has_places())
    return misuse("loader", "--sampler ", o.sampler, " leaves no sample; give a weight above 0");
  return quotas;
}

/// What to do where a batch is more than all samples: the largest that works, which ranks and grains divide.
std::string smaller_batch(int64_t samples, const LoaderOptions& o) {
  const int64_t parts = std::max<int64_t>(o.grains, o.world);
  if (samples < parts) return "give more samples";
  const int64_t most = samples / parts * parts;
  if (o.world == 1) return concat("use --batch ", most, " or less");
  return concat("use batches of ", counted(most, "sample"), " or less, which are ", most / o.world,
                " on each of ", o.world, " ranks");
}

}  // namespace

Result<std::shared_ptr<Setup>> Setup::make(const LoaderOptions& options) {
  DLPIPE_RETURN_IF_ERROR(check_options(options));
  auto setup = std::make_shared<Setup>();
  LoaderOptions& o = setup->options;
  o = options;
  if (o.threads == 0) o.threads = available_threads();
  if (o.device == nullptr) o.device = &cpu_device();
  setup->grows_by_memory = o.slots_max < 0;
  if (o.slots_max < 0)
    o.slots_max = o.device->is_host() ? kMaxGrownSlots : std::max(o.slots, kMaxDeviceSlots);
  if (o.slots_max == 0) o.slots_max = o.slots;
  o.batch *= o.views;
  setup->mixing = {o.mixup, o.cutmix};
  DLPIPE_ASSIGN_OR_RETURN(setup->dataset, data::Dataset::open(o.data));
  if (setup->dataset->size() == 0) return misuse("loader", o.data, " is empty; ingest some samples first");
  DLPIPE_ASSIGN_OR_RETURN(const Subset subset, chosen_samples(*setup));
  if (o.max_bad < 0) o.max_bad = std::max<int64_t>(10, subset.count() / 1000);
  DLPIPE_ASSIGN_OR_RETURN(setup->chain, o.ops != nullptr ? augment::Chain::parse(o.augment, *o.ops)
                                                         : augment::Chain::parse(o.augment));
  const augment::OpRecord* const turns = setup->chain.find(&augment::OpTraits::takes_turns);
  if (o.views > 1 && turns != nullptr)
    return misuse("loader", "--views ", options.views, " with ", turns->name,
                  ", which flips all views of a sample the same way in an epoch; use hflip");
  DLPIPE_RETURN_IF_ERROR(describe_fields(*setup, subset));
  const data::PixelStats stats = setup->dataset->pixel_stats().of_channels(o.channels);
  DLPIPE_RETURN_IF_ERROR(setup->chain.fill_prep(setup->prep, {stats.channels, stats.mean, stats.std}));
  if (o.image_dtype != DType::kU8 && setup->image_field >= 0) {
    DLPIPE_RETURN_IF_ERROR(augment::check_pixel_range(setup->prep, o.image_dtype));
    setup->floats.emplace(setup->prep, o.image_dtype, setup->image_size);
    setup->prep = BatchPrep();
  }
  DLPIPE_ASSIGN_OR_RETURN(auto quotas, quotas_of(*setup, subset));
  setup->sampler = Sampler({.subset = subset,
                            .quotas = std::move(quotas),
                            .batch = options.batch,
                            .rank = o.rank,
                            .world = o.world,
                            .shuffle = o.shuffle,
                            .keep_last = o.last == LastBatch::kKeep,
                            .fixed_parts = o.grains > 1,
                            .pad_last = o.pad_last && o.grains == 1,
                            .views = o.views,
                            .seed = o.seed});
  if (setup->sampler.batches_per_epoch() == 0) {
    return misuse("loader", o.data, " provides ", counted(subset.count(), "sample"),
                  ", fewer than one batch of ", options.batch * o.world,
                  ", and an incomplete batch is dropped; ", smaller_batch(subset.count(), o));
  }
  setup->pipeline_id = hash_pipeline(*setup);
  return setup;
}

// --- estimated memory apart from the slots

namespace {

augment::ImageSize largest_image(const Setup& setup) {
  augment::ImageSize largest{1, 1, setup.image_size.channels};
  const data::Dataset& dataset = *setup.dataset;
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    const auto header = dataset.header(sample);
    if (!header.ok()) continue;  // a bad record: no image
    const int64_t pixels = int64_t{header->width} * header->height;
    if (pixels <= int64_t{largest.width} * largest.height || pixels > setup.options.max_pixels) continue;
    largest.width = static_cast<int>(header->width);
    largest.height = static_cast<int>(header->height);
  }
  return largest;
}

/// The memory for decoding before a chain begins: the region's pixels, and the same amount for the codec's own copy.
size_t decoded_bytes(const augment::ChainPlan& plan, int channels) {
  const auto of = [&](const augment::ChainPlan& one) {
    return 2 * static_cast<size_t>(one.source_region.width) * static_cast<size_t>(one.source_region.height) *
           static_cast<size_t>(channels);
  };
  size_t most = plan.is_joined() ? 0 : of(plan);
  for (const augment::JoinedImage& image : plan.images) most = std::max(most, of(image.plan));
  return most;
}

}  // namespace

int64_t planned_scratch_bytes(const Setup& setup) {
  if (setup.image_field < 0) return 0;
  constexpr int64_t kKeys = 64;
  constexpr int64_t kOfEachThread = int64_t{1} << 20;  // rows and tables of a decoder, whatever the image
  const augment::ImageSize size = largest_image(setup);
  augment::ChainPlan plan;
  size_t most = 0;
  for (int64_t i = 0; i < kKeys; ++i) {
    const SampleKey key{.seed = setup.options.seed, .epoch = i, .position = i};
    const std::vector<augment::PlannedImage> images(1 + static_cast<size_t>(setup.chain.others(key)), {size});
    if (!setup.chain.plan(std::span(images), key, plan).ok()) continue;  // training will say so
    most = std::max(most, augment::Chain::scratch_bytes(plan) + decoded_bytes(plan, size.channels));
  }
  most += most / 8;
  return setup.options.threads * (static_cast<int64_t>(most) + kOfEachThread);
}

}  // namespace dlpipe::pipeline

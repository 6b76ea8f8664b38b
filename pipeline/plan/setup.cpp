#include "dlpipe/pipeline/plan/setup.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "dlpipe/augment/pixel_range.h"
#include "dlpipe/base/machine.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/schema.h"
#include "dlpipe/pipeline/plan/record_objects.h"

namespace dlpipe::pipeline {

namespace {

constexpr int kMaxThreads = 1024;
constexpr int kMaxSlots = 1024;
constexpr int kMaxGrownSlots = 65536;
constexpr int kMaxDeviceSlots =
    16;  // unless more are asked for: what is left of a device's memory is the model's
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
    return misuse("loader", option, " ", alpha, " mixes samples of a grain, and --grains ", o.grains,
                  " leaves each one sample of the global batch of ", o.batch * o.world, "; use --grains ",
                  o.batch * o.world / 2, " or fewer, or a larger --batch");
  }
  return {};
}

Status check_options(const LoaderOptions& o) {
  if (o.data.empty())
    return misuse("loader", "no dataset given; set --data to a directory made by `dlpipe ingest`");
  if (o.batch < 1) return misuse("loader", "--batch ", o.batch, "; a batch holds at least 1 sample");
  if (o.views < 1 || o.views > kMostViews)
    return misuse("loader", "--views ", o.views, "; use 1 to ", kMostViews);
  if (o.batch > std::numeric_limits<int32_t>::max() / (2 * o.views))
    return misuse("loader", "--batch ", o.batch, " is too large");
  if (o.views > 1 && (o.mixup > 0 || o.cutmix > 0 || o.grains > 1))
    return misuse("loader", "--views ", o.views,
                  " does not go with --mixup, --cutmix and --grains; leave these out");
  if (o.threads < 0 || o.threads > kMaxThreads) {
    return misuse("loader", "--threads ", o.threads, "; use 1 to ", kMaxThreads,
                  ", or 0 for all that may be used");
  }
  if (o.slots < 1 || o.slots > kMaxSlots) {
    return misuse("loader", "--slots ", o.slots, "; use 1 to ", kMaxSlots);
  }
  if (o.slots_max > 0 ? o.slots_max < o.slots || o.slots_max > kMaxGrownSlots : o.slots_max < -1) {
    return misuse("loader", "slots_max ", o.slots_max, "; use ", o.slots, " (the slots to begin with) to ",
                  kMaxGrownSlots, ", or -1 for as many as fit the memory");
  }
  if (o.world < 1) return misuse("loader", "--world ", o.world, "; at least one rank takes part");
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
    return misuse("loader", "--dtype ", dtype_name(dtype), "; pictures are u8, f32, f16 or bf16");
  if (o.mask_fill < 0 || o.mask_fill > 255)
    return misuse("loader", "--mask-fill ", o.mask_fill, "; a mask holds 0 to 255");
  if (o.max_pixels < 1) return misuse("loader", "--max-pixels ", o.max_pixels, "; use 1 or more");
  DLPIPE_RETURN_IF_ERROR(check_alpha("--mixup", o.mixup, o));
  return check_alpha("--cutmix", o.cutmix, o);
}

// The one size of all pictures, or zeros when they differ. One pass over the header table.
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

// What the chain makes of a picture: from the chain alone, or, where it follows its source, from the one size
// that all pictures have.
Result<augment::ImageSize> find_image_size(const Setup& setup, const Subset& subset) {
  const int channels = setup.options.channels;
  if (channels != 1 && channels != 3)
    return misuse("loader", "--channels ", channels, "; pictures are decoded to 1 (grey) or 3 (RGB)");
  augment::ImageSize any{0, 0, setup.options.channels};
  auto size = setup.chain.output(any);
  if (size.ok() && size->width > 0 && size->height > 0) return size;
  DLPIPE_ASSIGN_OR_RETURN(any, common_size(*setup.dataset, subset, setup.options.channels));
  if (any.width == 0) {
    return misuse("loader", "the pictures of ", setup.options.data, " have many sizes and --augment \"",
                  setup.options.augment,
                  "\" keeps them; add an op that gives one size, such as rrc(224) or resize(256) "
                  "center_crop(224)");
  }
  return setup.chain.output(any);
}

/// Whether samples have a class of their own; those of detection have a field for it, and nothing in it.
bool has_classes(const data::Dataset& dataset) {
  const std::span<const int64_t> counts = dataset.class_counts();
  return std::any_of(counts.begin(), counts.end(), [](int64_t count) { return count > 0; });
}

/// What is asked of fields that aren't there, or that can't be mixed.
Status check_uses(const Setup& setup) {
  const LoaderOptions& o = setup.options;
  if (setup.image_field < 0 && !setup.chain.empty())
    return misuse("loader", "--augment \"", o.augment, "\" needs pictures, and ", o.data,
                  " has no image field");
  using Kind = data::FieldKind;
  DLPIPE_RETURN_IF_ERROR(check_objects("loader", setup.chain, *setup.dataset));
  const augment::OpRecord* const blend = setup.chain.find(&augment::OpTraits::blends);
  const augment::OpRecord* const join = setup.chain.find_join();
  for (const data::Field& field : setup.fields) {
    const bool is_there = std::any_of(setup.fields.begin(), setup.fields.end(),
                                      [&](const data::Field& one) { return one.name == field.of; });
    if (!field.of.empty() && !is_there)
      return misuse("loader", "the field '", field.name, "' is of '", field.of,
                    "', which isn't chosen; choose both");
    const bool moves = field.kind == Kind::kBoxes || field.kind == Kind::kPoints || field.kind == Kind::kMask;
    if (blend != nullptr && moves)
      return misuse("loader", "--augment has ", blend->name,
                    ", which shows a picture at several places at once, and the field '", field.name,
                    "' of kind ", data::field_kind_name(field.kind),
                    " can't move with it; leave one of them out");
    const bool is_single = field.kind == Kind::kLabel
                               ? has_classes(*setup.dataset)
                               : field.of.empty() && !moves && field.kind != Kind::kImage &&
                                     field.kind != Kind::kLabels && field.kind != Kind::kBytes;
    if (join != nullptr && is_single)
      return misuse("loader", "--augment has ", join->name,
                    ", which puts several pictures into one, and of the field '", field.name, "' of kind ",
                    data::field_kind_name(field.kind), " a picture has one; leave one of them out");
  }
  if (!setup.mixing.is_on()) return {};
  if (setup.image_field < 0) {
    return misuse("loader", "--mixup and --cutmix are for pictures, and ", o.data,
                  " has no image field; leave them out");
  }
  for (const data::Field& field : setup.fields) {
    if (field.kind == Kind::kImage || field.kind == Kind::kLabel || field.kind == Kind::kBytes) continue;
    return misuse("loader", "--mixup and --cutmix mix pictures with one class each, and ", o.data,
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
      return misuse("loader", "the chosen samples name ", *none, ", and ", o.data, " has 0 to ", size - 1);
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
                     "'; load it by dlpipe.Loader in Python with fields= that has one of them"));
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
        break;  // its shape is the pictures'
      default:
        spec.ragged = !data::fixed_field_bytes(field).has_value();
    }
    setup.schema.push_back(std::move(spec));
  }
  for (size_t f = 0; f < setup.fields.size(); ++f) {
    if (setup.fields[f].kind != data::FieldKind::kMask) continue;
    if (setup.image_field < 0)
      return misuse("loader", "the field '", setup.fields[f].name,
                    "' is a mask of pictures, which aren't chosen; choose both");
    setup.schema[f].shape = {setup.image_size.height, setup.image_size.width};
  }
  if (setup.schema.empty()) {
    return Status(ErrorCode::kUnsupported,
                  concat("[loader] ", setup.options.data,
                         " has no field to load; ingest samples with pictures, labels or fields"));
  }
  return check_uses(setup);
}

// Everything that decides what the batches hold, given dataset and seed; not threads, slots, rank or layout.
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
  if (o.mask_fill != 0) text += concat("mask_fill ", o.mask_fill, "\n");
  for (const FieldSpec& spec : setup.schema) {
    text += concat("field ", spec.name, " ", dtype_name(spec.dtype), " ", spec.shape.to_string(),
                   spec.ragged ? " ragged\n" : "\n");
  }
  return hex64(data::checksum64(std::as_bytes(std::span(text))));
}

/// What to do where a batch is more than all samples: the largest power of two that works.
std::string smaller_batch(int64_t samples, const LoaderOptions& o) {
  const auto largest = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(samples)));
  if (largest < std::max<int64_t>(o.grains, o.world)) return "give more samples";
  return concat("use --batch ", o.grains > 1 ? largest : largest / o.world * o.world, " or less");
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
                  ", which turns all views of a sample to one side in an epoch; use hflip");
  DLPIPE_RETURN_IF_ERROR(describe_fields(*setup, subset));
  const data::PixelStats& stats = setup->dataset->pixel_stats();
  DLPIPE_RETURN_IF_ERROR(setup->chain.fill_prep(setup->prep, {stats.channels, stats.mean, stats.std}));
  if (o.image_dtype != DType::kU8 && setup->image_field >= 0) {
    DLPIPE_RETURN_IF_ERROR(augment::check_pixel_range(setup->prep, o.image_dtype));
    setup->floats.emplace(setup->prep, o.image_dtype, setup->image_size);
    setup->prep = BatchPrep();
  }
  setup->sampler = Sampler({.subset = subset,
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
    return misuse("loader", o.data, " gives ", subset.count(), subset.count() == 1 ? " sample" : " samples",
                  ", fewer than one batch of ", options.batch * o.world,
                  ", and an incomplete batch is dropped; ", smaller_batch(subset.count(), o));
  }
  setup->pipeline_id = hash_pipeline(*setup);
  return setup;
}

}  // namespace dlpipe::pipeline

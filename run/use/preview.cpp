#include "dlpipe/run/use/preview.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "dlpipe/augment/chain.h"
#include "dlpipe/augment/copy.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/pipeline/plan/record_objects.h"
#include "dlpipe/pipeline/plan/sampler.h"
#include "dlpipe/run/use/preview_text.h"

namespace dlpipe::run {

namespace {

constexpr int kGap = 4;  // pixels between cells
constexpr augment::Pixel kPaper = {255, 255, 255, 255};

/// A picture with its own pixels.
struct Picture {
  std::vector<uint8_t> pixels;
  ImageView view;

  Picture(int width, int height, int channels)
      : pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(channels)),
        view{pixels.data(), width, height, channels, ptrdiff_t{width} * channels} {}
};

ImageView part(const ImageView& image, int x, int y, int width, int height) {
  return {image.row(y) + ptrdiff_t{x} * image.channels, width, height, image.channels, image.stride};
}

/// `picture` in the middle of `cell`, made smaller where it doesn't fit, and so many times larger as it fits; answers where it
/// stands.
ImageView place(const ConstImageView& picture, const ImageView& cell, std::vector<std::byte>& work) {
  int width = picture.width;
  int height = picture.height;
  if (width > cell.width || height > cell.height) {
    const bool wide = int64_t{width} * cell.height >= int64_t{height} * cell.width;
    const int64_t scaled =
        wide ? int64_t{height} * cell.width / width : int64_t{width} * cell.height / height;
    width = wide ? cell.width : static_cast<int>(std::max<int64_t>(scaled, 1));
    height = wide ? static_cast<int>(std::max<int64_t>(scaled, 1)) : cell.height;
  }
  const int times = std::min(cell.width / width, cell.height / height);
  if (times > 1) {  // each pixel a square: what is shown is what there is
    const ImageView to = part(cell, (cell.width - times * width) / 2, (cell.height - times * height) / 2,
                              times * width, times * height);
    for (int y = 0; y < to.height; ++y) {
      for (int x = 0; x < to.width; ++x)
        std::copy_n(picture.row(y / times) + ptrdiff_t{x / times} * picture.channels, picture.channels,
                    to.row(y) + ptrdiff_t{x} * to.channels);
    }
    return to;
  }
  const ImageView to = part(cell, (cell.width - width) / 2, (cell.height - height) / 2, width, height);
  augment::resize(augment::whole_resize(picture.width, picture.height, width, height), picture, to, false,
                  work);
  return to;
}

/// A decoded picture of the dataset, and what is drawn over it.
struct Shown {
  int64_t sample = 0;
  Picture picture;
  SampleMarks marks;
  int64_t label = -1;
  std::unique_ptr<pipeline::RecordObjects> objects;  // for ops that draw by them
};

/// Decodes pictures of one dataset.
class Source {
 public:
  static Result<Source> open(const data::Dataset& dataset, const PreviewOptions& options) {
    DLPIPE_ASSIGN_OR_RETURN(auto reader, dataset.reader());
    return Source(dataset, std::move(reader), options);
  }
  /// Nothing where one of them can't be shown, which `damaged` then names.
  std::optional<std::vector<Shown>> shown(std::span<const int64_t> samples, const MarkKinds& kinds,
                                          bool pastes);
  const std::map<int64_t, Status>& damaged() const { return damaged_; }

 private:
  Result<Picture> decode(int64_t sample);
  Result<Shown> shown(int64_t sample, const MarkKinds& kinds, bool pastes);

  Source(const data::Dataset& dataset, std::unique_ptr<data::Dataset::Reader> reader,
         const PreviewOptions& options)
      : dataset_(&dataset),
        reader_(std::move(reader)),
        channels_(static_cast<int>(options.channels)),
        limits_{.max_pixels = options.max_pixels},
        decoder_(limits_) {}

  const data::Dataset* dataset_;
  std::unique_ptr<data::Dataset::Reader> reader_;
  int channels_;
  data::DecodeLimits limits_;
  data::ImageDecoder decoder_;
  std::map<int64_t, Status> damaged_;
};

Result<Picture> Source::decode(int64_t sample) {
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader_->record(sample));
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, data::image_bytes(*dataset_, record));
  if (bytes.empty()) return Status(ErrorCode::kMisuse, "it has no picture");
  DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_image(bytes));
  DLPIPE_RETURN_IF_ERROR(data::check_pixels(info, limits_.max_pixels));
  const bool swap = swaps_axes(info.orientation);
  Picture picture(swap ? info.height : info.width, swap ? info.width : info.height, channels_);
  const Region all = {0, 0, picture.view.width, picture.view.height};
  DLPIPE_RETURN_IF_ERROR(decoder_.decode_oriented(bytes, info, all, picture.view));
  return picture;
}

Result<Shown> Source::shown(int64_t sample, const MarkKinds& kinds, bool pastes) {
  DLPIPE_ASSIGN_OR_RETURN(Picture picture, decode(sample));
  const auto [width, height] = std::pair(picture.view.width, picture.view.height);
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader_->record(sample));
  DLPIPE_ASSIGN_OR_RETURN(SampleMarks marks, SampleMarks::read(*dataset_, record, kinds, width, height));
  auto objects = std::make_unique<pipeline::RecordObjects>(limits_);
  DLPIPE_RETURN_IF_ERROR(objects->read(*dataset_, record, width, height, pastes));
  DLPIPE_ASSIGN_OR_RETURN(const data::RecordHeader header, dataset_->header(sample));
  return Shown{sample, std::move(picture), std::move(marks), header.label, std::move(objects)};
}

std::optional<std::vector<Shown>> Source::shown(std::span<const int64_t> samples, const MarkKinds& kinds,
                                                bool pastes) {
  std::vector<Shown> all;
  for (const int64_t sample : samples) {
    Result<Shown> one = shown(sample, kinds, pastes);
    if (!one.ok()) {
      damaged_.emplace(sample, one.status());
      return std::nullopt;
    }
    all.push_back(*std::move(one));
  }
  return all;
}

ConstImageView region_of(const ConstImageView& source, const Region& region) {
  return {source.row(region.y) + ptrdiff_t{region.x} * source.channels, region.width, region.height,
          source.channels, source.stride};
}

/// Hands out the parts of pictures that are decoded already.
class Decoded : public augment::PictureSource {
 public:
  explicit Decoded(const std::vector<const Shown*>& pictures) : pictures_(pictures) {}
  Result<ConstImageView> pixels(size_t index, const augment::ChainPlan& plan, const ImageView& out) override {
    const ConstImageView part = region_of(pictures_[index]->picture.view, plan.source_region);
    if (!plan.is_copy()) return part;
    augment::copy_image(part, out, false);
    return ConstImageView(out);
  }

 private:
  const std::vector<const Shown*>& pictures_;
};

/// A chain, and what applying it keeps.
struct Runner {
  augment::Chain chain;
  augment::ChainPlan plan = {};
  augment::ChainScratch scratch = {};

  /// Of the sample's own picture and those that stand beside it.
  Result<Picture> run(const std::vector<const Shown*>& pictures, const SampleKey& key) {
    std::vector<augment::PlannedPicture> sizes;
    for (const Shown* one : pictures) {
      const ImageView& view = one->picture.view;
      one->objects->give_to(
          sizes.emplace_back(augment::PlannedPicture{{view.width, view.height, view.channels}, one->sample}));
    }
    DLPIPE_RETURN_IF_ERROR(chain.plan(sizes, key, plan));
    Picture out(plan.out.width, plan.out.height, plan.out.channels);
    if (plan.is_joined()) {
      Decoded source(pictures);
      DLPIPE_RETURN_IF_ERROR(chain.apply_joined(plan, source, out.view, scratch));
      return out;
    }
    const ConstImageView pixels = region_of(pictures.front()->picture.view, plan.source_region);
    DLPIPE_RETURN_IF_ERROR(chain.apply(plan, pixels, out.view, scratch));
    return out;
  }
};

/// Draws the rows of a grid: per sample and chain one, in it the picture as it is and what the chain makes of it each time.
class Grid {
 public:
  Grid(const data::Dataset& dataset, const PreviewOptions& options, std::vector<Runner> runners,
       Source source)
      : options_(options),
        classes_(dataset.classes()),
        runners_(std::move(runners)),
        source_(std::move(source)),
        // Pictures beside a sample's own are those of a run, too.
        sampler_({.subset = pipeline::Subset::all(dataset.size()), .seed = options.seed}),
        samples_(std::min(options.samples, dataset.size())),
        picture_(static_cast<int>(step() * (1 + options.times) + kGap),
                 static_cast<int>(step() * samples_ * static_cast<int64_t>(runners_.size()) + kGap),
                 static_cast<int>(options.channels)) {
    for (const Runner& runner : runners_) pastes_ = pastes_ || runner.chain.find_paste() != nullptr;
    augment::fill_region(view(), {0, 0, view().width, view().height}, kPaper);
  }

  int64_t samples() const { return samples_; }
  const ImageView& view() const { return picture_.view; }
  const std::map<int64_t, Status>& damaged() const { return source_.damaged(); }
  /// The rows of `sample`, the `number`th one; what was drawn goes into `cells`.
  Status draw(int64_t sample, int64_t number, std::vector<PreviewCell>& cells);

 private:
  int64_t step() const { return options_.cell + kGap; }
  ImageView cell(int64_t row, int64_t column) const {
    return part(view(), static_cast<int>(kGap + column * step()), static_cast<int>(kGap + row * step()),
                static_cast<int>(options_.cell), static_cast<int>(options_.cell));
  }
  Result<bool> draw_result(Runner& runner, const Shown& own, const SampleKey& key, const ImageView& to);

  const PreviewOptions& options_;
  const std::span<const std::string> classes_;
  std::vector<Runner> runners_;
  Source source_;
  pipeline::Sampler sampler_;
  int64_t samples_;
  bool pastes_ = false;
  Picture picture_;
  std::vector<std::byte> work_;
};

Status Grid::draw(int64_t sample, int64_t number, std::vector<PreviewCell>& cells) {
  const auto own_pictures = source_.shown({&sample, 1}, options_.marks, pastes_);
  if (!own_pictures) return {};
  const Shown& own = own_pictures->front();
  const ImageView& original = own.picture.view;
  Picture shown(original.width, original.height, static_cast<int>(options_.channels));
  augment::copy_image(original, shown.view, false);
  own.marks.tint(shown.view);
  for (size_t c = 0; c < runners_.size(); ++c) {
    const int64_t row = number * static_cast<int64_t>(runners_.size()) + static_cast<int64_t>(c);
    own.marks.draw(place(shown.view, cell(row, 0), work_), classes_);
    if (own.label >= 0 && static_cast<size_t>(own.label) < classes_.size()) {
      const auto number = static_cast<size_t>(own.label);
      const ImageView to = cell(row, 0);
      draw_text(to, 0, to.height - kTextHeight, drawable_name(classes_[number], number),
                color_of_class(number));
    }
    for (int64_t time = 0; time < options_.times; ++time) {
      const SampleKey key = {.seed = options_.seed, .epoch = time, .position = sample, .sample = sample};
      DLPIPE_ASSIGN_OR_RETURN(const bool is_drawn, draw_result(runners_[c], own, key, cell(row, time + 1)));
      if (is_drawn)
        cells.push_back({sample, static_cast<int>(c), time, augment::Chain::describe(runners_[c].plan)});
    }
  }
  return {};
}

/// The result of a chain with its marks; false where a picture beside the sample's own can't be shown.
Result<bool> Grid::draw_result(Runner& runner, const Shown& own, const SampleKey& key, const ImageView& to) {
  std::vector<int64_t> companions(static_cast<size_t>(runner.chain.others(key)));
  sampler_.companions(key.epoch, key.position, key.attempt, companions);
  const auto others = source_.shown(companions, options_.marks, pastes_);
  if (!others) return false;
  std::vector<const Shown*> pictures = {&own};
  for (const Shown& other : *others) pictures.push_back(&other);
  Result<Picture> result = runner.run(pictures, key);
  if (!result.ok()) return result.status().with_context(concat("[preview] sample ", key.sample, ": "));
  std::vector<SampleMarks> marks;
  marks.reserve(pictures.size());
  for (const Shown* one : pictures) marks.push_back(one->marks);
  const SampleMarks moved = SampleMarks::moved(marks, runner.plan);
  moved.tint(result->view);
  moved.draw(place(result->view, to, work_), classes_);
  return true;
}

}  // namespace

Result<PreviewReport> preview(const data::Dataset& dataset, const PreviewOptions& options,
                              const augment::OpRegistry& registry) {
  std::vector<Runner> runners;
  for (const std::string& expression : options.chains) {
    DLPIPE_ASSIGN_OR_RETURN(augment::Chain chain, augment::Chain::parse(expression, registry));
    DLPIPE_RETURN_IF_ERROR(pipeline::check_objects("preview", chain, dataset));
    runners.push_back({std::move(chain)});
  }
  if (dataset.size() == 0) return misuse("preview", dataset.directory(), " is empty");
  DLPIPE_RETURN_IF_ERROR(SampleMarks::check(dataset, options.marks));
  DLPIPE_ASSIGN_OR_RETURN(Source source, Source::open(dataset, options));
  Grid grid(dataset, options, std::move(runners), std::move(source));
  PreviewReport report;
  report.width = grid.view().width;
  report.height = grid.view().height;
  for (int64_t i = 0; i < grid.samples(); ++i)
    DLPIPE_RETURN_IF_ERROR(grid.draw(i * dataset.size() / grid.samples(), i, report.cells));
  report.damaged = grid.damaged();
  if (report.cells.empty()) {
    const auto& [sample, why] = *report.damaged.begin();
    return why.with_context(concat("[preview] sample ", sample, ": "));
  }
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> png, data::encode_png(grid.view()));
  DLPIPE_RETURN_IF_ERROR(
      formats::write_output(options.out, {reinterpret_cast<const char*>(png.data()), png.size()}));
  return report;
}

}  // namespace dlpipe::run

#include "io/data/problems.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "base/bytes.h"
#include "base/machine.h"
#include "base/messages.h"
#include "base/mutex.h"
#include "base/text.h"
#include "io/data/codec/mask.h"
#include "io/data/look_alike.h"
#include "io/data/sample.h"

namespace dlpipe::data {

namespace {

constexpr int kNoClass = 255;  // of a mask's pixels

// Luma, one plane.
struct Luma {
  int width = 0;
  int height = 0;
  std::vector<int32_t> values;
  int32_t at(int x, int y) const { return values[static_cast<size_t>(y) * width + x]; }
};

/// Means of k x k pixels, times 16.
Luma reduced_luma(const ConstImageView& image, int k) {
  Luma luma{image.width / k, image.height / k, {}};
  luma.values.resize(static_cast<size_t>(luma.width) * luma.height);
  for (int y = 0; y < luma.height * k; ++y) {
    int32_t* const sums = luma.values.data() + static_cast<ptrdiff_t>(y / k) * luma.width;
    const uint8_t* pixel = image.row(y);
    for (int x = 0; x < luma.width * k; ++x, pixel += image.channels)
      sums[x / k] += static_cast<int32_t>(luma_times_256(pixel, image.channels));
  }
  for (int32_t& sum : luma.values) sum /= 16 * k * k;
  return luma;
}

Luma halved(const Luma& luma) {
  Luma half{luma.width / 2, luma.height / 2, {}};
  for (int y = 0; y < half.height; ++y) {
    for (int x = 0; x < half.width; ++x)
      half.values.push_back((luma.at(2 * x, 2 * y) + luma.at(2 * x + 1, 2 * y) + luma.at(2 * x, 2 * y + 1) +
                             luma.at(2 * x + 1, 2 * y + 1)) /
                            4);
  }
  return half;
}

/// Mean square of the Laplacian.
double edges(const Luma& luma) {
  int64_t sum = 0;
  for (int y = 1; y + 1 < luma.height; ++y) {
    for (int x = 1; x + 1 < luma.width; ++x) {
      const int64_t edge =
          4 * luma.at(x, y) - luma.at(x - 1, y) - luma.at(x + 1, y) - luma.at(x, y - 1) - luma.at(x, y + 1);
      sum += edge * edge;
    }
  }
  return static_cast<double>(sum) / (static_cast<double>(luma.width - 2) * (luma.height - 2));
}

/// Whether the image, at 129 to 256 pixels or after up to three halvings, has less than a fifth of the edges of its half-size
/// version. In a photograph, both have about as many: the smallest ratio of 500 from ImageNet is 0.22, and the median after a
/// Gaussian blur of 1/256 of the longer side is 0.14. After a strong blur, the only edges at full size come from rounding and
/// JPEG, so the smaller sizes are tested, too.
bool is_blurred(const ConstImageView& image) {
  constexpr int kLongerSide = 256;
  constexpr int kLeastSide = 16;
  constexpr int kScales = 4;
  constexpr double kFewEdges = 0.2;
  const int longer = std::max(image.width, image.height);
  Luma luma = reduced_luma(image, std::max(1, (longer + kLongerSide - 1) / kLongerSide));
  for (int scale = 0; scale < kScales && std::min(luma.width, luma.height) >= kLeastSide; ++scale) {
    Luma half = halved(luma);
    if (edges(luma) < kFewEdges * edges(half)) return true;
    luma = std::move(half);
  }
  return false;
}

/// Whether 99 % of the pixels have a luma below 80.
bool is_dark(const ConstImageView& image) {
  constexpr int64_t kDarkLuma = 80 * 256;
  int64_t brighter = 0;
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* pixel = image.row(y);
    for (int x = 0; x < image.width; ++x, pixel += image.channels)
      brighter += luma_times_256(pixel, image.channels) >= kDarkLuma;
  }
  return brighter * 100 < int64_t{image.width} * image.height;
}

/// Collects what the threads find.
class ProblemFinder {
 public:
  explicit ProblemFinder(std::span<const std::shared_ptr<const Dataset>> splits) : splits_(splits) {}

  Status find_median() {
    std::vector<double> sides;
    for (const auto& dataset : splits_) {
      for (int64_t i = 0; i < dataset->size(); ++i) {
        DLPIPE_ASSIGN_OR_RETURN(const RecordHeader header, dataset->header(i));
        if (header.layout != ImageLayout::kNone) sides.push_back(side_of(header));
      }
    }
    if (sides.empty()) return {};
    std::nth_element(sides.begin(), sides.begin() + static_cast<ptrdiff_t>(sides.size() / 2), sides.end());
    median_side_ = sides[sides.size() / 2];
    return {};
  }

  void see(size_t split, const DecodedSample& decoded) {
    thread_local std::vector<uint16_t> work;
    const SampleReader::Sample& sample = decoded.sample;
    std::vector<ProblemReport::Image> found;
    const auto add = [&](const char* problem, std::string detail) {
      found.push_back({place_of(split, sample), problem, std::move(detail)});
    };
    ImageLook look;
    if (!decoded.status.ok()) {
      add(kUnreadable, std::string(without_area(decoded.status.message())));
    } else if (decoded.image.data != nullptr) {
      look = look_of(decoded.image, work);
      judge_image(sample.header, decoded.image, look, add);
    }
    std::map<std::pair<std::string, int64_t>, int64_t> counts;
    if (decoded.status.ok()) judge_fields(*splits_[split], sample, add, counts);
    const MutexLock lock(mutex_);
    if (look.pixels != 0)
      seen_.push_back({static_cast<uint32_t>(split), 0, sample.number, checksum64(sample.view.image), look});
    for (const auto& [key, count] : counts) counts_[key] += count;
    std::move(found.begin(), found.end(), std::back_inserter(images_));
  }

  Result<ProblemReport> report(int threads);

 private:
  static double side_of(const RecordHeader& header) {
    return std::sqrt(static_cast<double>(header.width) * header.height);
  }
  ProblemReport::Place place_of(size_t split, const SampleReader::Sample& sample) const {
    ProblemReport::Place place{split, sample.number, {}};
    const std::span<const Field> fields = splits_[split]->fields();
    for (size_t f = 0; f < sample.view.fields.size(); ++f) {
      const std::span<const std::byte> value = sample.view.fields[f];
      if (fields[f].name == "path")
        place.path.assign(reinterpret_cast<const char*>(value.data()), value.size());
    }
    return place;
  }
  template <class Add>
  void judge_image(const RecordHeader& header, const ConstImageView& image, const ImageLook& look, Add add) {
    const std::string size = concat(header.width, "x", header.height);
    if (side_of(header) * 4 <= median_side_ || side_of(header) >= 4 * median_side_) add(kOddSize, size);
    if (std::max(header.width, header.height) >= 3 * std::min(header.width, header.height))
      add(kOddShape, size);
    if (look.signs == 0)
      add(kOneColour, "");
    else if (is_blurred(image))
      add(kBlurred, "");
    if (is_dark(image)) add(kDark, "");
  }
  template <class Add>
  void judge_fields(const Dataset& dataset, const SampleReader::Sample& sample, Add add,
                    std::map<std::pair<std::string, int64_t>, int64_t>& counts) const;

  std::span<const std::shared_ptr<const Dataset>> splits_;
  double median_side_ = 0;
  Mutex mutex_;
  std::vector<ProblemReport::Image> images_ DLPIPE_GUARDED_BY(mutex_);
  std::vector<SeenImage> seen_ DLPIPE_GUARDED_BY(mutex_);
  /// How many samples or boxes have each number of a field.
  std::map<std::pair<std::string, int64_t>, int64_t> counts_ DLPIPE_GUARDED_BY(mutex_);
};

/// False for a NaN or an infinity among the numbers of a field.
static bool is_finite_value(DType dtype, std::span<const std::byte> value) {
  const auto all_finite = [&]<class T>(T number) {
    for (size_t at = 0; at + sizeof(T) <= value.size(); at += sizeof(T)) {
      std::memcpy(&number, value.data() + at, sizeof(T));
      if (!std::isfinite(number)) return false;
    }
    return true;
  };
  if (dtype == DType::kF32) return all_finite(0.0f);
  return dtype != DType::kF64 || all_finite(0.0);
}

template <class Add>
void ProblemFinder::judge_fields(const Dataset& dataset, const SampleReader::Sample& sample, Add add,
                                 std::map<std::pair<std::string, int64_t>, int64_t>& counts) const {
  thread_local MaskDecoder masks;
  const std::span<const Field> fields = dataset.fields();
  const auto is_of_boxes = [](const Field& field) {
    return field.kind == FieldKind::kLabels && !field.of.empty();
  };
  const bool has_boxes = std::any_of(fields.begin(), fields.end(), is_of_boxes);
  const auto classes = static_cast<int64_t>(dataset.classes().size());
  for (size_t f = 0; f < fields.size(); ++f) {
    const std::span<const std::byte> value = sample.view.fields[f];
    const std::string& name = fields[f].name;
    if (fields[f].kind == FieldKind::kLabel && sample.view.label >= 0) ++counts[{name, sample.view.label}];
    if (fields[f].kind == FieldKind::kLabels) {
      for (size_t at = 0; at + sizeof(int64_t) <= value.size(); at += sizeof(int64_t))
        ++counts[{name, static_cast<int64_t>(load_le<uint64_t>(value, at))}];
    }
    if (!is_finite_value(fields[f].dtype, value)) add(kNotFinite, name);
    if (fields[f].kind == FieldKind::kBoxes) {
      std::array<float, 4> box{};
      for (size_t at = 0; at + sizeof(box) <= value.size(); at += sizeof(box)) {
        std::memcpy(box.data(), value.data() + at, sizeof(box));
        if (box[2] > box[0] && box[3] > box[1]) continue;
        add(kEmptyBox, concat(name, " ", box[0], ",", box[1], ",", box[2], ",", box[3]));
      }
    }
    if (fields[f].kind == FieldKind::kMask && !value.empty()) {
      const auto mask = masks.decode(value);
      if (!mask.ok()) {
        add(kUnreadable, concat(name, ": ", without_area(mask.status().message())));
        continue;
      }
      std::array<int64_t, 256> pixels{};
      for (int y = 0; y < mask->height; ++y) {
        for (int x = 0; x < mask->width; ++x) ++pixels[mask->row(y)[x]];
      }
      for (int64_t number = 0; number < kNoClass; ++number) {
        if (pixels[static_cast<size_t>(number)] == 0) continue;
        ++counts[{name, number}];
        if (has_boxes && number > classes)
          add(kUnknownClass, concat(name, ": ", pixels[static_cast<size_t>(number)], " pixels of ", number));
      }
    }
  }
}

Result<ProblemReport> ProblemFinder::report(int threads) {
  ProblemReport report;
  std::vector<SeenImage> seen;
  std::map<std::pair<std::string, int64_t>, int64_t> counts;
  {
    const MutexLock lock(mutex_);
    report.images = std::move(images_);
    seen = std::move(seen_);
    counts = std::move(counts_);
  }
  for (const auto& dataset : splits_) report.samples += dataset->size();
  // By problem, then place, independent of the threads' order.
  const auto rank = [](const ProblemReport::Image& image) {
    return std::find(std::begin(kProblems), std::end(kProblems), image.problem) - std::begin(kProblems);
  };
  std::stable_sort(report.images.begin(), report.images.end(), [&](const auto& a, const auto& b) {
    return std::tuple(rank(a), a.place.split, a.place.sample) <
           std::tuple(rank(b), b.place.split, b.place.sample);
  });

  for (const Field& field : splits_.front()->fields()) {
    const bool is_mask = field.kind == FieldKind::kMask;
    if (!is_mask && field.kind != FieldKind::kLabel && field.kind != FieldKind::kLabels) continue;
    const std::span<const std::string> names = splits_.front()->classes();
    int64_t total = 0, used = 0;
    for (const auto& [key, count] : counts) {
      if (key.first != field.name) continue;
      total += count;
      ++used;
    }
    if (total == 0) continue;
    const int64_t classes = is_mask ? 256 : static_cast<int64_t>(names.size());
    const int64_t among = is_mask ? used : classes;
    for (int64_t number = 0; number < classes; ++number) {
      const auto found = counts.find({field.name, number});
      const int64_t count = found == counts.end() ? 0 : found->second;
      if ((is_mask && count == 0) || (count > 1 && count * 10 * among >= total)) continue;
      report.classes.push_back(
          {is_mask ? std::to_string(number) : names[static_cast<size_t>(number)], field.name, count});
    }
  }

  const AlikeImages alike = alike_images(seen, threads);
  report.alike_by_nature = static_cast<int64_t>(alike.by_nature);
  std::vector<std::unique_ptr<SampleReader>> readers;
  for (const auto& dataset : splits_) {
    DLPIPE_ASSIGN_OR_RETURN(auto reader, SampleReader::open(*dataset));
    readers.push_back(std::move(reader));
  }
  const auto place = [&](const SeenImage& image) -> Result<ProblemReport::Place> {
    DLPIPE_ASSIGN_OR_RETURN(const SampleReader::Sample sample, readers[image.split]->read(image.sample));
    return place_of(image.split, sample);
  };
  for (const AlikePair& pair : alike.pairs) {
    if (report.alike_by_nature > 0 && !pair.same_pixels) continue;
    const SeenImage& first = seen[pair.first];
    const SeenImage& second = seen[pair.second];
    ProblemReport::Alike& reported = report.alike.emplace_back();
    DLPIPE_ASSIGN_OR_RETURN(reported.first, place(first));
    DLPIPE_ASSIGN_OR_RETURN(reported.second, place(second));
    reported.same = first.checksum == second.checksum ? "bytes" : pair.same_pixels ? "pixels" : "look";
    reported.mirrored = pair.mirrored;
  }
  return report;
}

}  // namespace

Result<ProblemReport> find_problems(std::span<const std::shared_ptr<const Dataset>> splits,
                                    const ProblemOptions& options,
                                    const std::function<void(int64_t, int64_t)>& progress) {
  const int threads = options.threads > 0 ? options.threads : available_threads();
  ProblemFinder finder(splits);
  DLPIPE_RETURN_IF_ERROR(finder.find_median());
  int64_t total = 0, before = 0;
  for (const auto& dataset : splits) total += dataset->size();
  for (size_t split = 0; split < splits.size(); ++split) {
    DecodeRange range{0, splits[split]->size(), threads, options.max_pixels, options.stop_requested, {}};
    if (progress) range.progress = [&](int64_t done, int64_t) { progress(before + done, total); };
    const Status status = decode_samples(*splits[split], range,
                                         [&](const DecodedSample& decoded) { finder.see(split, decoded); });
    if (!status.ok()) return status.with_context("[inspect] ");
    before += splits[split]->size();
  }
  return finder.report(threads);
}

}  // namespace dlpipe::data
